"""The commands in the documents: each is one that the command line has, with options that it has."""

from __future__ import annotations

import re
from glob import glob

import pytest

from aitne.cli.app import make_command
from aitne.cli.global_option_order import move_global_options
from tests.support.documents import (
    ROOT,
    mentioned_commands,
    pages,
    simple_commands,
    typed_commands,
    typed_lines,
)

PAGES = pages()
COMMAND = make_command()
PLACEHOLDERS = {"N": "8000", "VERB": "ps"}


def parse(words: list[str]) -> None:
    """Parse the arguments of ``aitne`` as the command line does, without running the command. Raises
    what the command line reports as an error of usage.
    """
    name, verb = "aitne", COMMAND
    rest = move_global_options([PLACEHOLDERS.get(word, word) for word in words])
    context = None
    while "--help" not in rest:
        context = verb.make_context(name, [*rest], parent=context)
        rest = [*context._protected_args, *context.args]
        if not hasattr(context.command, "commands") or not rest:
            return
        name, verb, rest = context.command.resolve_command(context, rest)


def faults(commands: list[list[str]], *, complete: bool) -> dict[str, str]:
    """The commands that the command line refuses, with its message. Without ``complete`` arguments
    may be missing.
    """
    found = {}
    for _, *words in commands:
        try:
            parse(words)
        except Exception as error:  # noqa: BLE001 - Typer's errors are in a private module
            incomplete = type(error).__name__ == "MissingParameter" or "requires an arg" in str(
                error
            )
            if complete or not incomplete:
                found[" ".join(words)] = str(error)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_command_line_has_each_command_of_a_document(page: str) -> None:
    typed = [command for command in typed_commands(page) if command[0] == "aitne"]
    # Options for all commands would install themselves, or end the program.
    mentioned = [words for words in mentioned_commands(page) if not words[1].startswith("--")]
    assert faults(typed, complete=True) == {}
    assert faults(mentioned, complete=False) == {}


def test_documents_have_commands_and_a_wrong_one_is_noticed() -> None:
    typed = [words for page in PAGES for words in typed_commands(page) if words[0] == "aitne"]
    assert len(typed) > 150
    line = "cd / && sudo env A=b /opt/bin/aitne admin backup --too 'a b' > file | aitne ps # why"
    commands = list(simple_commands(line))
    assert commands[1:] == [["aitne", "admin", "backup", "--too", "a b"], ["aitne", "ps"]]
    assert list(faults(commands[1:], complete=True)) == ["admin backup --too a b"]
    assert list(faults([["aitne", "logs"]], complete=True)) == ["logs"]
    assert faults([["aitne", "logs"]], complete=False) == {}


@pytest.mark.parametrize("page", PAGES)
def test_targets_and_files_that_a_reader_types_exist(page: str) -> None:
    text = "\n".join(re.findall(r"^(\S+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = text.split()
    for line in typed_lines(page):
        for program, *words in simple_commands(line):
            if program == "make":
                named = [word for word in words if "=" not in word]
                assert set(named) <= set(targets), line
    folders = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir()))
    named = re.findall(rf"(?<![\w/.-])(?:{folders})/[\w./*-]+", "\n".join(typed_lines(page)))
    made = ("dist/", "frontend/dist/", "inventory/")
    assert [
        path for path in named if not path.startswith(made) and not glob(str(ROOT / path))
    ] == []
