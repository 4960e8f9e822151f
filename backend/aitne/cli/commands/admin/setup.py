"""``admin setup``: settings, units and the reverse proxy for this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aitne.cli import output
from aitne.cli.command_registry import command
from aitne.cli.shared_options import Json, Yes

if TYPE_CHECKING:
    from collections.abc import Collection

    from aitne.core.models.check_result import CheckResult
    from aitne.operations.setup.answers import Answers
    from aitne.operations.setup.questions import Question, Values
    from aitne.operations.setup.setup_plan import SetupPlan

_TRUTH = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


@command(
    "admin setup",
    example="sudo aitne admin setup\n"
    "aitne admin setup --answers setup.toml --dry-run\n"
    "sudo aitne admin setup --answers setup.toml --yes",
)
def setup(
    answers_file: Annotated[
        Path | None,
        typer.Option("--answers", metavar="FILE", help="Answers in TOML or YAML; no questions."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences and change nothing.")
    ] = False,
    root: Annotated[
        Path,
        typer.Option(
            "--root", metavar="DIR", help="Write below this folder, such as that of an image."
        ),
    ] = Path("/"),
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Write settings, units and the reverse proxy's files, after an inspection of this machine.

    Without --answers it asks, and takes the answers of the last run as defaults. It inspects Slurm,
    accounts, the shared folder, database, DNS, certificates and ports, shows each difference, asks,
    and then writes; running it again with the same answers changes nothing.
    """
    # The settings and adapters are heavier than everything else here.
    from aitne.core.errors import InvalidInput, SetupError
    from aitne.core.models.check_result import CheckState
    from aitne.operations.setup.answers import read_answers, validate_answers
    from aitne.operations.setup.inspection import run_inspection
    from aitne.operations.setup.setup_plan import SetupPlan, check_write_permission

    if not root.is_dir():
        raise InvalidInput(f"--root {root} is not a folder. Create it, or name another one.")
    top = str(root.absolute())
    answers = (
        validate_answers(read_answers(answers_file)) if answers_file else _ask_all_questions(top)
    )
    plan = SetupPlan(answers, top, answers_file)
    if not dry_run:
        check_write_permission(plan)
    checks = []
    for check in run_inspection(answers, top):
        checks.append(check)
        _print_check(check)
    for change in plan.changes:
        if change.diff and not as_json:
            output.print_line(change.diff.rstrip("\n"))
        if change.state == "unreadable":
            output.print_message(
                f"{change.path} exists and cannot be read by this account: no difference shown."
            )
    failed = [check for check in checks if check.state is CheckState.FAILED]
    sentences = plan.describe_changes()
    if dry_run:
        _print_outcome(plan, checks, as_json, changes=sentences)
        for sentence in sentences:
            output.print_message(f"Would: {sentence}")
        return 1 if failed else 0
    if failed:
        raise SetupError(
            f"{len(failed)} of {len(checks)} checks failed: {', '.join(check.name for check in failed)}. "
            "Nothing was changed. Do what the messages say, then try again."
        )
    if not sentences:
        _print_outcome(plan, checks, as_json)
        output.print_message("Everything is as the answers say. Nothing was changed.")
        return 0
    kept = () if yes else _confirm_plan(plan)
    changes = plan.describe_changes(kept)
    try:
        copies = plan.execute(output.print_message, kept) if changes else []
    except KeyboardInterrupt:
        output.print_message("\nInterrupted. Run the command again: it does what is still missing.")
        raise
    _print_outcome(plan, checks, as_json, changes=changes, copies=copies, written=True, kept=kept)
    _print_next_steps(answers, top)
    return 0


def _ask_all_questions(root: str) -> Answers:
    """Ask all questions at the terminal and return the answers.

    Raises:
        InvalidInput: there is no terminal, or the answers contradict each other.
    """
    from aitne.core.errors import InvalidInput
    from aitne.operations.setup.answers import read_answers, validate_answers
    from aitne.operations.setup.questions import (
        QUESTIONS,
        find_inspected_defaults,
        flatten_answers,
        nest_answers,
    )
    from aitne.operations.setup.rendering import ANSWERS

    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal for the questions: pass --answers FILE.")
    earlier: Values = {}
    file = Path(root) / ANSWERS.lstrip("/")
    try:
        exists = file.exists()
        earlier = flatten_answers(read_answers(file)) if exists else {}
    except (OSError, InvalidInput) as error:
        output.print_message(f"The earlier answers are not used: {error}")
    asked = {question.name for question in QUESTIONS}
    defaults = {**find_inspected_defaults(), **earlier}
    values = {name: value for name, value in defaults.items() if name not in asked}
    output.print_message(
        "Enter accepts the answer in brackets, - removes it. Ctrl-C ends without any change."
    )
    try:
        for question in QUESTIONS:
            if question.is_put(values):
                default = defaults.get(question.name)
                _ask_question(
                    question, values, question.get_default(values) if default is None else default
                )
    except KeyboardInterrupt:
        output.print_message("\nNothing was changed.")
        raise
    sections = ["slurm", "broker"] if values["scheduler"] == "local" else []
    if values.get("proxy.server", "none") == "none":
        sections.append("proxy")
    return validate_answers(
        nest_answers(
            {name: value for name, value in values.items() if name.split(".")[0] not in sections}
        )
    )


def _ask_question(question: Question, values: Values, default: Any) -> None:
    from aitne.operations.setup.questions import find_problem

    yes_or_no = isinstance(default, bool)
    shown = ("Y/n" if default else "y/N") if yes_or_no else default
    while True:
        sys.stderr.write(f"{question.text}{f' [{shown}]' if shown else ''}: ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:  # Ctrl-D
            raise KeyboardInterrupt
        text = line.strip()
        if text == "-" and question.is_optional:
            return
        value: Any = default if not text else _TRUTH.get(text.lower(), text) if yes_or_no else text
        if value is None or value == "":
            if question.is_optional:
                return
            output.print_message("  An answer is needed.")
            continue
        if yes_or_no and not isinstance(value, bool):
            output.print_message("  Answer y or n.")
            continue
        problem = find_problem(question.name, {**values, question.name: value})
        if problem is None:
            values[question.name] = value
            return
        output.print_message(f"  {output.to_single_line(text or value, 80)} {problem}. Try again.")


def _print_check(check: CheckResult) -> None:
    output.print_message(f"{check.state:8} {check.name}: {output.to_single_line(check.message)}")
    if check.remedy:
        output.print_message(f"{'':8} {output.to_single_line(check.remedy)}")


def _confirm_plan(plan: SetupPlan) -> list[Path]:
    """Ask before the first write; return the files that are to be kept.

    Raises:
        InvalidInput: there is no terminal.
        Declined: the answer was no.
    """
    try:
        return _confirm_each(plan)
    except KeyboardInterrupt:
        output.print_message("\nNothing was changed.")
        raise


def _confirm_each(plan: SetupPlan) -> list[Path]:
    from aitne.cli.errors import Declined

    kept = []
    for change in plan.files_to_write:
        if change.state == "changed":
            try:
                output.require_confirmation(
                    f"{change.path} is different, see above. Replace it and keep a copy beside it?"
                )
            except Declined:
                output.print_message(f"{change.path} is kept.")
                kept.append(change.path)
    sentences = plan.describe_changes(kept)
    if sentences:
        for sentence in sentences:
            output.print_message(f"- {sentence}")
        output.require_confirmation("Do this?")
    return kept


def _print_outcome(
    plan: SetupPlan,
    checks: Collection[CheckResult],
    as_json: bool,
    *,
    changes: Collection[str] = (),
    copies: Collection[Path] = (),
    written: bool = False,
    kept: Collection[Path] = (),
) -> None:
    if not as_json:
        for copy in copies:
            output.print_message(f"The earlier file is kept as {copy}.")
        return
    output.print_json(
        {
            "checks": [check.model_dump(mode="json") for check in checks],
            "files": [
                {
                    "path": str(change.path),
                    "state": "kept" if change.path in kept else change.state,
                    "diff": change.diff,
                }
                for change in plan.changes
            ],
            "copies": [str(copy) for copy in copies],
            "changes": list(changes),
            "written": written,
        }
    )


def _print_next_steps(answers: Answers, root: str) -> None:
    if root != "/":
        return
    if not answers.enable:
        from aitne.operations.setup.rendering import list_units

        names = " ".join(list_units(answers))
        output.print_message(f"Start the platform with `systemctl enable --now {names}`.")
    output.print_message("`journalctl -u aitne` has the login link for the first administrator.")
