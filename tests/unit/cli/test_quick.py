"""The fast path beside Typer's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from aitne.cli import fast_command_path
from aitne.cli.app import make_command


def examples(quick_command: fast_command_path.QuickCommand) -> list[list[str]]:
    words = [[flag] for flag in quick_command.flags] + [
        [option, "X"] for option in quick_command.values
    ]
    argument = [["job-name"]] if quick_command.argument else []
    return [
        list(itertools.chain(*argument, *chosen))
        for size in range(len(words) + 1)
        for chosen in itertools.combinations(words, size)
    ]


@pytest.mark.parametrize("name", fast_command_path.QUICK)
def test_the_short_way_reads_what_typer_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_command = fast_command_path.QUICK[name]
    calls: list[dict[str, Any]] = []

    def record(**arguments: Any) -> int:
        calls.append({key: value for key, value in arguments.items() if value})
        return 0

    monkeypatch.setattr(f"aitne.cli.views.{quick_command.module}.{quick_command.function}", record)
    for words in examples(quick_command):
        line = [name, *words]
        assert fast_command_path.run_quick_command(line) == 0, line
        make_command().main(line, prog_name="aitne", standalone_mode=False)
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
    assert fast_command_path.run_quick_command(line) is None
