"""Keys that are typed on the terminal of a job."""

from __future__ import annotations

import pytest

from aitne.cli.remote_terminal import EscapeDetector


@pytest.mark.parametrize(
    ("typed", "passed", "hung_up"),
    [
        (b"~.", b"", True),
        (b"ls\r~.", b"ls\r", True),
        (b"a~.", b"a~.", False),
        (b"\r~~.", b"\r~.", False),
        (b"\r~x", b"\r~x", False),
        (b"\n~.more", b"\n", True),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 100])
def test_the_escape_is_found_at_the_beginning_of_a_line(
    typed: bytes, passed: bytes, hung_up: bool, piece: int
) -> None:
    escape, out, over = EscapeDetector(), b"", False
    for start in range(0, len(typed), piece):
        found, over = escape.filter_input(typed[start : start + piece])
        out += found
        if over:
            break
    assert (out, over) == (passed, hung_up)
