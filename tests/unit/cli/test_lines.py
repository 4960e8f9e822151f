"""From words to verbs: where options may stand, and the short way beside Typer's."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from typing import Any

import pytest

from aitne.cli import quick
from aitne.cli.app import LazyCommand, command
from aitne.cli.table import GROUPS, VERBS, arrange
from tests.unit.cli.conftest import Aitne


@pytest.mark.parametrize(
    ("given", "arranged"),
    [
        (["ps"], ["ps"]),
        (["--url", "U", "ps", "-a"], ["ps", "--url", "U", "-a"]),
        (["--json", "--data-dir=D", "ps"], ["ps", "--json", "--data-dir=D"]),
        (["--url", "U", "admin", "user", "ls"], ["admin", "user", "ls", "--url", "U"]),
        (["admin", "--url", "U", "user", "ls"], ["admin", "user", "ls", "--url", "U"]),
        (["logs", "x", "--url", "U"], ["logs", "x", "--url", "U"]),
        (["session"], ["session", "--help"]),
        (["admin", "user"], ["admin", "user", "--help"]),
        (["--version"], ["--version"]),
        (["--url"], ["--url"]),
        ([], []),
    ],
)
def test_global_options_may_stand_before_the_verb(given: list[str], arranged: list[str]) -> None:
    assert arrange(given) == arranged


def leaves(verbs: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, later in verbs.items():
        verb = later.load() if isinstance(later, LazyCommand) else later
        if hasattr(verb, "commands"):
            found.update(leaves(verb.commands, (*path, name)))
        else:
            found[*path, name] = verb
    return found


def test_the_table_knows_every_verb_and_group() -> None:
    paths = {(name,) for name in VERBS} - {group[:1] for group in GROUPS}
    for group, verbs in GROUPS.items():
        paths |= {(*group, verb) for verb in verbs} - set(GROUPS)
    assert set(leaves(command().commands)) == paths


def test_the_help_of_all_says_what_the_help_of_each_says() -> None:
    for name, later in command().commands.items():
        assert later.load().help.splitlines()[0] == VERBS[name][2]


def test_every_verb_says_what_it_does_and_every_option_too() -> None:
    for path, verb in leaves(command().commands).items():
        assert verb.help, path
        for parameter in verb.params:
            assert parameter.help, (path, parameter.name)


def examples(verb: quick.QuickVerb) -> list[list[str]]:
    words = [[flag] for flag in verb.flags] + [[option, "X"] for option in verb.values]
    argument = [["job-name"]] if verb.argument else []
    return [
        list(itertools.chain(*argument, *chosen))
        for size in range(len(words) + 1)
        for chosen in itertools.combinations(words, size)
    ]


@pytest.mark.parametrize("name", quick.QUICK)
def test_the_short_way_reads_what_typer_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    verb = quick.QUICK[name]
    calls: list[dict[str, Any]] = []

    def record(**arguments: Any) -> int:
        calls.append({key: value for key, value in arguments.items() if value})
        return 0

    monkeypatch.setattr(f"aitne.cli.verbs.{verb.module}.{verb.function}", record)
    for words in examples(verb):
        line = [name, *words]
        assert quick.run(line) == 0, line
        command().main(line, prog_name="aitne", standalone_mode=False)
        short, long = calls[-2:]
        assert short == long, line


@pytest.mark.parametrize(
    "line",
    [
        ["ps", "--help"],
        ["ps", "--al"],
        ["ps", "-aj"],
        ["ps", "more"],
        ["ps", "--url"],
        ["ps", "--url", "--json"],
        ["ps", "--url="],
        ["logs"],
        ["logs", "a", "b"],
        ["logs", ""],
        ["logs", "--", "a"],
        ["apply", "-f", "x"],
        [],
    ],
)
def test_the_short_way_leaves_everything_else_alone(line: list[str]) -> None:
    assert quick.run(line) is None


def test_a_mistyped_verb_gets_a_suggestion(aitne: Aitne) -> None:
    done = aitne("aply")
    assert done.status == 2
    assert "Did you mean" in done.err
    assert "apply" in done.err


@pytest.mark.parametrize(
    "line", [["ps", "--nonsense"], ["apply"], ["up", "--port", "99999"], ["logs"], ["nonsense"]]
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
