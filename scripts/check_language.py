"""Compare the wording of the sources with the budgets in `scripts/language_budget.toml`.

Each measure counts one kind of wording that the glossary (`docs/reference/glossary.md`) replaces.
A count above its budget fails, and so does a count below it, until `--lower` has written the lower
figure down: budgets only fall. The subjects of the commits after `base` must be Conventional
Commits with a scope. Run from the root of the repository:

    python scripts/check_language.py [--lower | --commit-message FILE]

The sources are the files that git tracks or would track, and without git the files in the folders.
Generated files are not counted.
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

from language_measures import MEASURES, Result, Source, Sources, parse

BUDGET_FILE = "scripts/language_budget.toml"
GENERATED = {
    "backend/aitne/client/admin_records.py",
    "backend/aitne/client/aio.py",
    "backend/aitne/client/project_records.py",
    "backend/aitne/client/records.py",
    "frontend/src/api/schema.d.ts",
}
BACKEND = re.compile(r"(?:backend/aitne|runtime/aitne_train)/.+\.py")
FRONTEND = re.compile(r"frontend/src/.+\.tsx?|frontend/src/i18n/.+\.json")
TESTS = re.compile(r"(?:tests|benchmarks|scripts|runtime/tests|runtime/benchmarks)/.+\.py")
FOLDERS = ("backend/aitne", "runtime", "frontend/src", "tests", "benchmarks", "scripts")

SUBJECT_LENGTH = 72
TYPES = "build chore ci docs feat fix perf refactor revert style test"
SUBJECT = re.compile(r"(?P<type>[A-Za-z]+)(?P<scope>\([^()]*\))?!?: (?P<description>.+)")
SCOPE = re.compile(r"\([a-z0-9][a-z0-9._/-]*\)")
UNCHECKED_SUBJECTS = ("Merge ", "fixup! ", "squash! ", "amend! ")
PRINTED = 20


class GitError(Exception):
    """git is not installed, or a git command failed."""


def git(*arguments: str, stdin: str = "") -> str:
    """Return the output of a git command; raise `GitError` with the reason when it fails."""
    command = ["git", "-c", "core.quotepath=off", *arguments]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise GitError("git is not installed") from None
    if done.returncode:
        raise GitError(done.stderr.strip() or f"git {arguments[0]} failed")
    return done.stdout


def read_sources() -> Sources:
    """Read and parse the measured files; without git, all files of the measured folders."""
    try:
        paths = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    except GitError:
        folders = (Path(folder).rglob("*") for folder in FOLDERS)
        paths = [path.as_posix() for folder in folders for path in folder if path.is_file()]

    def select(pattern: re.Pattern[str], build: Callable[[str, str], Source]) -> list[Source]:
        return [
            build(path, Path(path).read_text("utf-8"))
            for path in sorted(set(paths) - GENERATED)
            if pattern.fullmatch(path) and Path(path).exists()
        ]

    return Sources(select(BACKEND, parse), select(FRONTEND, Source), select(TESTS, parse))


def added_lines() -> dict[str, set[int]]:
    """Return the lines of each file that are newer than the committed budgets.

    These are the lines added since the last commit that changed the budget file, in commits and in
    the working tree, and all lines of untracked files. The dictionary is empty without history.
    """
    added: dict[str, set[int]] = defaultdict(set)
    path = ""
    try:
        revision = git("log", "-1", "--format=%H", "--", BUDGET_FILE).strip()
        if not revision:
            return {}
        prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
        plain = ("--no-color", "--no-ext-diff", "--no-renames")
        diff = git("diff", "-U0", *prefixes, *plain, revision, "--", *FOLDERS)
        untracked = git("ls-files", "--others", "--exclude-standard", "--", *FOLDERS)
    except GitError:
        return {}
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            start, length = int(hunk[1]), int(hunk[2] or 1)
            added[path].update(range(start, start + length))
    for path in untracked.splitlines():
        if BACKEND.fullmatch(path) or FRONTEND.fullmatch(path) or TESTS.fullmatch(path):
            added[path].update(range(1, Path(path).read_bytes().count(b"\n") + 2))
    return added


def recorded_budgets() -> dict[str, int]:
    """Return the smallest budget of each measure in the file's first-parent history."""
    lowest: dict[str, int] = {}
    try:
        revisions = git("log", "--first-parent", "--format=%H", "--", BUDGET_FILE).split()
        requests = "".join(f"{revision}:{BUDGET_FILE}\n" for revision in revisions)
        versions = git("cat-file", "--batch", stdin=requests)
    except GitError:
        return {}
    for name, value in re.findall(r"^(\w+) = (\d+)$", versions, re.MULTILINE):
        lowest[name] = min(int(value), lowest.get(name, int(value)))
    return lowest


def compare(results: Mapping[str, Result], budgets: Mapping[str, int]) -> list[str]:
    """Return the failures of counts that differ from their budgets, one text for each."""
    failures = []
    over = {name for name, result in results.items() if result.count > budgets.get(name, 0)}
    added = added_lines() if over else {}
    for name, result in results.items():
        measure, budget = MEASURES[name], budgets.get(name, 0)
        if name in over:
            excess = f"{name}: {result.count}, budget {budget} ({result.count - budget} over)"
            lines = [f"{excess}: {measure.meaning}."]
            new = [use for use in result.uses if use.line in added.get(use.path, ())]
            lines += [f"  {use.path}:{use.line}: {use.text}" for use in new[:PRINTED]]
            if len(new) > PRINTED:
                lines.append(f"  ... and {len(new) - PRINTED} more")
            lines += [f"  Counted: {result.detail}."] if result.detail else []
            failures.append("\n".join([*lines, f"  {measure.remedy}"]))
        elif result.count < budget:
            lower = "lower the budget: python scripts/check_language.py --lower"
            failures.append(f"{name}: {result.count}, budget {budget}; {lower}")
    return failures


def lower_budgets(text: str, results: Mapping[str, Result]) -> str:
    """Return the text of the budget file with each budget lowered to its count; raise none."""
    for name, result in results.items():

        def lowered(match: re.Match[str], count: int = result.count) -> str:
            return f"{match[1]}{min(count, int(match[2]))}"

        text = re.sub(rf"^({name} = )(\d+)$", lowered, text, flags=re.MULTILINE)
    return text


def subject_error(subject: str) -> str:
    """Return why a commit subject is refused, or an empty string."""
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return "not of the form type(scope): description"
    if match["type"] not in TYPES.split():
        return f"unknown type '{match['type']}' (known: {TYPES})"
    if match["scope"] is None:
        return "no scope"
    if not SCOPE.fullmatch(match["scope"]):
        return "the scope has other characters than a-z, 0-9 and . _ / -"
    if len(subject) > SUBJECT_LENGTH:
        return f"{len(subject)} characters, at most {SUBJECT_LENGTH}"
    if not re.match(r"[a-z0-9`'\"]", match["description"]):
        return "the description begins with a capital letter or a sign"
    return "the description ends with a full stop" if subject.endswith(".") else ""


def check_subjects(base: str) -> list[str]:
    """Return the refused subjects after `base`; print a notice when the history lacks it."""
    try:
        git("merge-base", "--is-ancestor", base, "HEAD")
        log = git("log", "--no-merges", "--format=%h%x09%s", f"{base}..HEAD")
    except GitError as error:
        cause = str(error) if "installed" in str(error) else f"no history that contains {base}"
        print(f"Commit subjects were not checked: {cause}.")
        return []
    commits = (line.split("\t", 1) for line in log.splitlines())
    return [
        f"commit {commit}: {reason}: {subject}"
        for commit, subject in commits
        if (reason := subject_error(subject))
    ]


def check_message(path: Path) -> list[str]:
    """Return the error of a commit message's first line; merges and fixups are accepted."""
    lines = path.read_text("utf-8").splitlines()
    subject = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if not subject or subject.startswith(UNCHECKED_SUBJECTS):
        return []
    error = subject_error(subject)
    return [f"commit subject: {error}: {subject}"] if error else []


def main(arguments: list[str] | None = None) -> int:
    """Print each failure; the exit status says whether there is one."""
    parser = argparse.ArgumentParser(description="Compare the wording with its budgets.")
    parser.add_argument("--lower", action="store_true", help="lower the budgets to the counts")
    parser.add_argument("--commit-message", type=Path, metavar="FILE", help="check its subject")
    options = parser.parse_args(arguments)
    if options.commit_message:
        failures = check_message(options.commit_message)
    else:
        sources = read_sources()
        results = {name: measure.count(sources) for name, measure in MEASURES.items()}
        file = Path(BUDGET_FILE)
        if options.lower:
            file.write_text(lower_budgets(file.read_text("utf-8"), results), "utf-8")
        document = tomllib.loads(file.read_text("utf-8"))
        budgets, recorded = document["budgets"], recorded_budgets()
        failures = compare(results, budgets)
        failures += [
            f"{name}: the budget rose from {recorded[name]} to {value}; budgets only fall"
            for name, value in budgets.items()
            if value > recorded.get(name, value)
        ]
        failures += check_subjects(document["base"])
    print(*failures, sep="\n", end="\n" if failures else "")
    return bool(failures)


if __name__ == "__main__":
    # Syntax trees have no cycles worth collecting, and the collector takes half the time.
    gc.disable()
    sys.exit(main())
