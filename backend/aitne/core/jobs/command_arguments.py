"""Argument vector of a job's command: a line of bash, or a script with an interpreter."""

from __future__ import annotations

from collections.abc import Sequence


def parse_interpreter(command: str) -> tuple[str, ...] | None:
    """Return the interpreter that the first line of ``command`` names (``#!/usr/bin/perl -w``), with
    its argument if there is one; None for a command that is not a script.

    The line is read as Linux reads it: all words after the interpreter are one argument.
    """
    line = command.partition("\n")[0]
    words = line[2:].strip().split(maxsplit=1) if line.startswith("#!") else []
    return tuple(words) if words and words[0].startswith("/") else None


def make_argv(command: str, path: str, args: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the arguments that run a command; ``path`` is the file that contains the command if it
    is a script, and ``args`` are its own arguments.
    """
    program = parse_interpreter(command)
    if program is not None:
        return (*program, path, *args)
    # The word after the command is its $0, which bash sets to its own name if there is none.
    return ("bash", "-c", command, *(("bash", *args) if args else ()))
