"""Position of global options on the command line."""

from __future__ import annotations

import pytest

from aitne.cli.global_option_order import move_global_options


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
        (["--data-dir", "D", "admin", "--help"], ["admin", "--help"]),
        (["admin", "user", "--url=U", "-h"], ["admin", "user", "-h"]),
        (["--url", "U", "usage", "--help"], ["usage", "--url", "U", "--help"]),
        (["--version"], ["--version"]),
        (["--url"], ["--url"]),
        ([], []),
    ],
)
def test_global_options_may_stand_before_the_verb(given: list[str], arranged: list[str]) -> None:
    assert move_global_options(given) == arranged
