"""The language budgets and commit subjects, checked in small repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import check_language  # type: ignore[import-not-found] # noqa: E402
import language_measures as measures  # type: ignore[import-not-found] # noqa: E402

sys.path.remove(str(SCRIPTS))

MODULE = "backend/aitne/jobs.py"
CLEAN = '''"""Run the jobs of a project."""


class Job:
    """A job of a project with its tasks."""
'''

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class Repository:
    """A git repository with one backend module and budgets of zero."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.base = ""

    def create(self) -> None:
        self.git("init", "--quiet")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")
        self.write(MODULE, CLEAN)
        self.commit("Start without a convention")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def set_budgets(self, **counts: int) -> None:
        budgets = {name: counts.get(name, 0) for name in measures.MEASURES}
        lines = [f'base = "{self.base}"', "[budgets]"]
        lines += [f"{name} = {value}" for name, value in budgets.items()]
        self.write(check_language.BUDGET_FILE, "\n".join(lines) + "\n")

    def budgets(self) -> str:
        return (self.root / check_language.BUDGET_FILE).read_text("utf-8")

    def commit(self, subject: str) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "--no-verify", "--message", subject)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The repository that each test copies."""
    repository = Repository(tmp_path_factory.mktemp("original"))
    repository.create()
    repository.base = repository.git("rev-parse", "HEAD").strip()
    repository.set_budgets()
    return repository


@pytest.fixture
def repository(original: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository in which the check passes; it is the working directory."""
    for variable in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(variable)
    copy = Repository(tmp_path / "repository")
    shutil.copytree(original.root, copy.root)
    copy.base = original.base
    monkeypatch.chdir(copy.root)
    return copy


def backend(text: str) -> measures.Sources:
    """Return sources with one backend module."""
    return measures.Sources([measures.parse("module.py", text)], [], [])


def outside_backend(text: str, path: str = "tests/unit/test_jobs.py") -> measures.Sources:
    """Return sources with one module outside the backend."""
    return measures.Sources([], [], [measures.parse(path, text)])


def count(name: str, sources: measures.Sources) -> int:
    result: int = measures.MEASURES[name].count(sources).count
    return result


def test_clean_repository_passes_silently(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("feat(check): add budgets")
    assert check_language.main([]) == 0
    assert capsys.readouterr().out == ""


def test_duplicate_class_name_exceeds_budget(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("feat(check): add budgets")
    repository.write("backend/aitne/tasks.py", CLEAN)
    assert check_language.main([]) == 1
    printed = capsys.readouterr().out
    assert "duplicate_class_names: 1, budget 0 (1 over)" in printed
    assert "backend/aitne/tasks.py:4: Job" in printed
    assert f"{MODULE}:4" not in printed


def test_third_definition_of_duplicated_class_exceeds_budget() -> None:
    modules = [measures.parse(f"{name}.py", CLEAN) for name in ("jobs", "tasks")]
    two = measures.Sources(modules, [], [])
    three = measures.Sources([*modules, measures.parse("third.py", CLEAN)], [], [])
    assert count("duplicate_class_names", two) == count("duplicate_class_names", three) == 1
    assert count("duplicate_class_definitions", two) == 1
    assert count("duplicate_class_definitions", three) == 2


def test_private_and_nested_classes_are_not_duplicates() -> None:
    text = "class _Plan: ...\nclass Outer:\n    class Inner: ...\n"
    modules = [measures.parse("a.py", text), measures.parse("b.py", text.replace("Outer", "Rim"))]
    assert count("duplicate_class_names", measures.Sources(modules, [], [])) == 0


def test_private_word_in_message_exceeds_budget(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(MODULE, CLEAN + 'OLD = "Nobody asks."\n')
    repository.set_budgets(private_words_backend=1)
    repository.commit("feat(check): add budgets")
    assert check_language.main([]) == 0
    repository.write(MODULE, CLEAN + 'OLD = "Nobody asks."\nNEW = "Ask somebody."\n')
    repository.commit("feat(jobs): ask")
    assert check_language.main([]) == 1
    printed = capsys.readouterr().out
    assert "private_words_backend: 2, budget 1 (1 over)" in printed
    assert f"{MODULE}:7: somebody" in printed
    assert f"{MODULE}:6" not in printed


def test_private_words_of_generated_frontend_types_do_not_count(repository: Repository) -> None:
    repository.write("frontend/src/api/schema.d.ts", "// nobody\n")
    assert check_language.main([]) == 0
    repository.write("frontend/src/i18n/de.json", '{"Nobody works": "Keiner arbeitet"}\n')
    assert check_language.main([]) == 1


def test_vague_local_names_are_ranked_by_functions() -> None:
    names = [f"value{number:02}" for number in range(60)]
    body = "".join(f"def use(): {name} = 1\n" for name in [*names, *names])
    once = "def use():\n    found = 1\n    found = 2\n    found = 3\n"
    assert count("vague_local_names", backend(body + once)) == 0
    assert count("vague_local_names", backend(body + once * 3)) == 1
    parameters = "def use(found): return [found for wanted in found]\n"
    assert count("vague_local_names", backend(parameters)) == 2


def test_pronoun_test_names_need_whole_first_word() -> None:
    names = ("it_works", "items_work", "nobody", "jobs_of_nobody", "what_holds")
    text = "".join(f"    async def test_{name}(self): ...\n" for name in names)
    sources = measures.Sources([], [], [measures.Source("tests/test_jobs.py", text)])
    uses = measures.MEASURES["pronoun_test_names"].count(sources).uses
    assert [use.text for use in uses] == ["test_it_works", "test_nobody", "test_what_holds"]
    assert [use.line for use in uses] == [1, 3, 5]


@pytest.mark.parametrize(
    ("name", "docstring"),
    [
        ("clause_docstrings", "Whether the job has ended."),
        ("clause_docstrings", "Who may read the log."),
        ("short_docstrings", "End it now."),
        ("see_the_port_docstrings", "See the port. Raises nothing."),
    ],
)
def test_docstring_is_counted_by_its_measure_only(name: str, docstring: str) -> None:
    kinds = ("clause_docstrings", "short_docstrings", "see_the_port_docstrings")
    sources = backend(f'async def run():\n    """{docstring}"""\n')
    assert {kind: count(kind, sources) for kind in kinds} == {kind: kind == name for kind in kinds}


def test_ordinary_docstrings_are_not_counted() -> None:
    sources = backend('"""Whatsoever name it has."""\nclass A:\n    """Return the next job."""\n')
    assert count("clause_docstrings", sources) == count("short_docstrings", sources) == 0


@pytest.mark.parametrize("folder", ["tests/support", "benchmarks", "scripts"])
def test_docstring_outside_the_backend_exceeds_a_budget_of_its_own(
    repository: Repository, capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    repository.commit("feat(check): add budgets")
    repository.write(f"{folder}/jobs.py", '"""Whether a job runs, or has ended."""\n')
    assert check_language.main([]) == 1
    printed = capsys.readouterr().out
    assert "clause_docstrings_tests: 1, budget 0 (1 over)" in printed
    assert f"{folder}/jobs.py:1: Whether a job runs, or has ended." in printed
    assert "clause_docstrings: " not in printed


def test_docstrings_of_attributes_are_not_counted() -> None:
    sources = outside_backend('"""A job of a project."""\nJOB = 1\n"""What runs."""\n')
    assert count("clause_docstrings_tests", sources) == 0
    assert count("short_docstrings_tests", sources) == 0


def test_private_words_in_prose_of_tests_are_counted() -> None:
    text = """
def account():
    '''Return an account.

    Nobody uses it.
    '''
    user = "nobody"  # {word} `nobody`
    return nobody("#everybody")
"""
    sources = outside_backend(text.format(word="whoever"))
    uses = measures.MEASURES["private_words_tests"].count(sources).uses
    assert [(use.line, use.text) for use in uses] == [(5, "Nobody"), (7, "whoever")]


def test_vague_names_of_helpers_are_counted() -> None:
    text = """
WHO, LIMIT = ("ada", "bob"), 3
__all__ = ["WHO"]
class Heard:
    found: str
    def _asked(self): wanted = 1
    def read(self): ...
    def ended_jobs(self): ...
async def there(): ...
"""
    sources = outside_backend(text, "tests/support/jobs.py")
    uses = measures.MEASURES["vague_helper_names"].count(sources).uses
    names = [(2, "WHO"), (4, "Heard"), (6, "_asked"), (9, "there")]
    assert [(use.line, use.text) for use in uses] == names
    assert count("vague_helper_names", outside_backend(text, "tests/machines/jobs.py")) == 4
    assert count("vague_helper_names", outside_backend(text, "tests/unit/jobs.py")) == 0


def test_on_slurm_counts_whole_words() -> None:
    assert count("on_slurm", backend("a.on_slurm\nb.on_slurm_nodes\n")) == 1


def test_count_below_budget_fails_until_lowered(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.set_budgets(on_slurm=3)
    assert check_language.main([]) == 1
    assert "check_language.py --lower" in capsys.readouterr().out
    assert check_language.main(["--lower"]) == 0
    assert "on_slurm = 0\n" in repository.budgets()
    assert repository.base in repository.budgets()


def test_lower_raises_no_budget(repository: Repository) -> None:
    repository.set_budgets(short_docstrings=5)
    repository.write(MODULE, CLEAN + "settings.on_slurm\n")
    assert check_language.main(["--lower"]) == 1
    assert "on_slurm = 0\n" in repository.budgets()
    assert "short_docstrings = 0\n" in repository.budgets()


@pytest.mark.parametrize("committed", [False, True])
def test_raised_budget_fails(
    repository: Repository, capsys: pytest.CaptureFixture[str], committed: bool
) -> None:
    repository.commit("feat(check): add budgets")
    repository.write(MODULE, CLEAN + "settings.on_slurm\n")
    repository.set_budgets(on_slurm=1)
    if committed:
        repository.commit("feat(jobs): ask for Slurm")
    assert check_language.main([]) == 1
    assert "on_slurm: the budget rose from 0 to 1" in capsys.readouterr().out


def test_merge_may_exceed_budget_of_merged_branch(repository: Repository) -> None:
    repository.set_budgets(on_slurm=3)
    repository.write(MODULE, CLEAN + "a.on_slurm\nb.on_slurm\nc.on_slurm\n")
    repository.commit("feat(check): add budgets")
    repository.git("checkout", "--quiet", "-b", "side")
    repository.set_budgets()
    repository.write(MODULE, CLEAN)
    repository.commit("refactor(jobs): ask the port")
    repository.git("checkout", "--quiet", "-")
    repository.set_budgets(on_slurm=2)
    repository.write(MODULE, CLEAN + "a.on_slurm\nd.on_slurm\n")
    repository.commit("feat(jobs): ask for another reason")
    repository.git("merge", "--quiet", "--strategy=ours", "--no-edit", "side")
    repository.set_budgets(on_slurm=1)
    repository.write(MODULE, CLEAN + "d.on_slurm\n")
    repository.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    assert check_language.main([]) == 0


def test_commit_subject_without_scope_fails(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("feat: add budgets")
    assert check_language.main([]) == 1
    printed = capsys.readouterr().out
    commit = repository.git("rev-parse", "--short", "HEAD").strip()
    assert f"commit {commit}: no scope: feat: add budgets" in printed
    assert "Start without a convention" not in printed


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("feat(jobs): " + "a" * 60, ""),
        ("fix(api/jobs)!: `aitne ps` lists arrays", ""),
        ("feat(jobs): " + "a" * 61, "73 characters, at most 72"),
        ("feature(jobs): add arrays", "unknown type 'feature'"),
        ("feat(Jobs): add arrays", "the scope has other characters"),
        ("feat(jobs): Add arrays", "capital letter"),
        ("feat(jobs): add arrays.", "full stop"),
        ("Let the walks take a notice", "not of the form"),
    ],
)
def test_commit_message_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subject: str, reason: str
) -> None:
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"# Please enter the message\n{subject}\n\nA longer text.\n", "utf-8")
    assert check_language.main(["--commit-message", str(message)]) == bool(reason)
    assert reason in capsys.readouterr().out


def test_commit_message_of_merge_is_accepted(tmp_path: Path) -> None:
    message = tmp_path / "MERGE_MSG"
    message.write_text("Merge branch 'side'\n", "utf-8")
    assert check_language.main(["--commit-message", str(message)]) == 0


def test_history_without_base_skips_subjects(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.base = "0" * 40
    repository.set_budgets()
    repository.commit("Let it be")
    assert check_language.main([]) == 0
    assert (
        "Commit subjects were not checked: no history that contains 000" in capsys.readouterr().out
    )


def test_missing_git_still_compares_budgets(
    repository: Repository, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write(MODULE, CLEAN + "settings.on_slurm\n")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert check_language.main([]) == 1
    printed = capsys.readouterr().out
    assert "Commit subjects were not checked: git is not installed." in printed
    assert "on_slurm: 1, budget 0 (1 over)" in printed
