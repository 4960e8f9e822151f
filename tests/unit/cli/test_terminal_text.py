"""Tests of the output of `aitne logs` on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.cli.terminal_filter import TerminalFilter

SHOWN = re.compile(r"\x1b\[[0-9;:]*[ABCDGKm]")
PIECES = st.sampled_from(
    [
        "loss 0.1\n",
        "\r",
        "\t",
        "\x1b",
        "[",
        "]",
        "31m",
        "52;c;QQ==",
        "\x07",
        "\x1b\\",
        "\x9b",
        "2J",
        "é",
    ]
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b[31mred\x1b[0m\n", b"\x1b[31mred\x1b[0m\n"),
        (b"50%\r\x1b[K100%\x1b[A\n", b"50%\r\x1b[K100%\x1b[A\n"),
        (b"a\x1b]52;c;cm0gLXJmIH4=\x07b", b"ab"),
        (b"a\x1b]0;title\x1b\\b", b"ab"),
        (b"a\x1b[2J\x1b[6n\x1bcb\x00\x08", b"ab\x08"),
        (b"a\xc2\x9b31mb", b"a31mb"),
        ("grüße 🚀\n".encode(), "grüße 🚀\n".encode()),
        (b"\xff", "\ufffd".encode()),
    ],
)
def test_only_harmless_sequences_reach_a_terminal(written: bytes, shown: bytes) -> None:
    assert TerminalFilter().feed(written) == shown
    bytewise = TerminalFilter()
    assert b"".join(bytewise.feed(written[i : i + 1]) for i in range(len(written))) == shown


@given(st.lists(PIECES))
def test_no_control_character_is_left(pieces: list[str]) -> None:
    filtered = TerminalFilter()
    text = b"".join(filtered.feed(piece.encode()) for piece in pieces).decode()
    rest = SHOWN.sub("", text)
    assert all(char.isprintable() or char in "\n\r\t\b" for char in rest), rest


def test_an_endless_sequence_is_not_held_back_for_ever() -> None:
    filtered = TerminalFilter()
    shown = b"".join(filtered.feed(b"\x1b]" + b"x" * 1_000) for _ in range(20))
    assert len(shown) > 1_000


PROGRAM = (
    "from aitne.cli.views.job_log import write_log; write_log([b'a\\x1b]0;t\\x07b', b'\\x1b[31mc'])"
)


def test_a_file_gets_every_byte_and_a_terminal_does_not() -> None:
    piped = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert piped.stdout == b"a\x1b]0;t\x07b\x1b[31mc"
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", PROGRAM], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 100) == b"ab\x1b[31mc"
    os.close(ours)
