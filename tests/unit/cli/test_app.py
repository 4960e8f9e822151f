"""The commands, their help and completion, and the table that says where they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aitne.cli.app import LazyCommand, make_command
from aitne.cli.command_registry import ORDER
from aitne.cli.command_table import COMMANDS, GROUPS
from tests.unit.cli.conftest import Aitne

ROOT = Path(__file__).resolve().parents[3]


def leaves(verbs: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, later in verbs.items():
        verb = later.load_command() if isinstance(later, LazyCommand) else later
        if hasattr(verb, "commands"):
            found.update(leaves(verb.commands, (*path, name)))
        else:
            found[*path, name] = verb
    return found


def run(program: str, *arguments: str) -> str:
    """Run a program with the modules of ``scripts`` and return what it prints."""
    paths = [str(ROOT / "scripts"), str(ROOT / "backend"), str(ROOT / "runtime")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_table_of_commands_is_up_to_date() -> None:
    written = (ROOT / "backend" / "aitne" / "cli" / "command_table.py").read_text()
    assert run("import gen_commands; gen_commands.main()") == written, "run `make gen`"


def test_table_names_every_group() -> None:
    found = {" ".join(path[:end]) for path in leaves(make_command().commands) for end in (1, 2, 3)}
    assert set(GROUPS) <= found
    assert set(COMMANDS) <= found


def test_order_of_the_help_names_existing_commands() -> None:
    assert set(ORDER) <= set(COMMANDS)
    assert len(set(ORDER)) == len(ORDER)


HELLO = '''
from aitne.cli import output
from aitne.cli.shared_options import JobArgument
from aitne.cli.command_registry import LOOK, command

@command("hello", LOOK, example="aitne hello my-job")
def hello(job: JobArgument) -> int:
    """Greet a job.

    Politely.
    """
    output.print_line(f"Hello {job}.")
    return 0
'''

WITH_A_FOLDER = """
import sys
from aitne.cli import commands, command_table
import gen_commands

commands.__path__.append(sys.argv[1])
exec(gen_commands.render_module(), vars(command_table))
from aitne.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def test_command_is_added_with_one_file(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(HELLO)
    assert run(WITH_A_FOLDER, str(tmp_path), "hello", "ada") == "Hello ada.\n"
    assert "  hello          Greet a job.\n" in run(WITH_A_FOLDER, str(tmp_path), "--help")


def test_command_imports_no_other_command() -> None:
    program = (
        "import sys; from aitne.cli.main import main; main(['admin', 'user', 'ls', '--help']);"
        "print(*sorted(name for name in sys.modules if name.startswith('aitne.cli.commands')))"
    )
    package = "aitne.cli.commands"
    assert run(program).splitlines()[-1].split() == [
        package,
        f"{package}.admin",
        f"{package}.admin.user",
    ]


def test_every_verb_says_what_it_does_and_every_option_too() -> None:
    for path, verb in leaves(make_command().commands).items():
        assert verb.help, path
        for parameter in verb.params:
            assert parameter.help, (path, parameter.name)


def test_a_mistyped_verb_gets_a_suggestion(aitne: Aitne) -> None:
    done = aitne("aply")
    assert done.status == 2
    assert "Did you mean" in done.err
    assert "apply" in done.err


@pytest.mark.parametrize(
    "line",
    [
        ["ps", "--nonsense"],
        ["apply", "--nonsense"],
        ["up", "--port", "99999"],
        ["logs"],
        ["nonsense"],
    ],
)
def test_usage_errors_are_one_sentence_with_status_2(aitne: Aitne, line: list[str]) -> None:
    done = aitne(*line)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("aitne: ")
    assert "--help" in done.err
    assert "Traceback" not in done.err
    assert aitne(*line, "--json").json["error"]["code"] == "usage"


def test_help_has_examples_and_no_verb_is_help(aitne: Aitne) -> None:
    assert "Examples:" in aitne("session", "start", "--help").out
    done = aitne()
    assert done.status == 0
    assert "session start jupyterlab" in done.out
    assert "ls" in aitne("admin", "user").out


def test_the_version(aitne: Aitne) -> None:
    assert aitne("--version").out.startswith("aitne ")


@pytest.mark.parametrize(
    ("typed", "offered"), [("aitne ses", "session"), ("aitne ps --da", "--data-dir")]
)
def test_the_shell_completes(typed: str, offered: str) -> None:
    place = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", "from aitne.cli.main import run; run()"],
        env={**os.environ, "_AITNE_COMPLETE": "complete_bash", **place},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [offered], done.stderr
