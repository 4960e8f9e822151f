"""The commands and notebook cells that the documents tell a reader to type."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTEBOOK_TUTORIAL = "tutorial/distributed-notebook.md"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_PROMPT = re.compile(r"^ *[$#] ")
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_CONTROL = frozenset("();<>|&")
_BEFORE = re.compile(r"sudo|env|runuser -u \w+ --|\w+=\S*")
"""Words before a program that start it in another way."""
_CLONE = "/home/mira/aitne"
"""The clone of the documents' reader."""
_NODE = "node01"
"""The node of the documents' reader."""


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in that language."""
    text = (DOCS / page).read_text()
    return [body for kind, body in _BLOCK.findall(text) if kind == language]


def commands(page: str) -> list[str]:
    """Return the commands after the prompts of a page.

    `ID` stands for the job that was submitted last.
    """
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [re.sub(r"\bID\b", '"$(newest)"', line) for line in typed]


def cells(page: str) -> list[dict[str, object]]:
    """Return the cells of a tutorial's notebook, with paths of this clone and this machine's name.

    Each has its code and the lines of output that the page shows.
    """
    found: list[dict[str, object]] = []
    for kind, body in _BLOCK.findall((DOCS / page).read_text()):
        if kind == "python":
            found.append({"code": body.strip().replace(_CLONE, str(ROOT)), "lines": []})
        elif kind == "text":
            found[-1]["lines"] = body.replace(_NODE, socket.gethostname()).splitlines()
    return found


def pages() -> list[str]:
    """The documents, by their paths in the repository."""
    found = (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def typed_lines(page: str) -> list[str]:
    """Return what follows the prompts of a document, ``$`` and ``#`` (root); continued lines are joined."""
    joined = (block.replace("\\\n", " ") for block in _CONSOLE.findall((ROOT / page).read_text()))
    lines = (line for block in joined for line in block.splitlines())
    return [_PROMPT.sub("", line) for line in lines if _PROMPT.match(line)]


def typed_commands(page: str) -> list[list[str]]:
    """The simple commands in the lines that a document has a reader type, as argument lists."""
    return [command for line in typed_lines(page) for command in simple_commands(line)]


def mentioned_commands(page: str) -> list[list[str]]:
    """The calls of ``aitne`` in the text of a document, as argument lists."""
    spans = (" ".join(span.split()) for span in _SPAN.findall((ROOT / page).read_text()))
    found = (simple_commands(span) for span in spans if re.search(r"(?:^|[ /])aitne ", span))
    return [command for commands in found for command in commands if command[0] == "aitne"]


def simple_commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line in a shell, without redirections, variables and ``sudo``; the
    program is named without its folder.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for word in (*lexer, ";"):
        if word in ("<", ">"):
            redirected = True
        elif redirected:
            redirected = False
        elif set(word) <= _CONTROL:
            text = shlex.join(words)
            while (before := _BEFORE.match(text)) and before.end() < len(text):
                text = text[before.end() :].lstrip()
            if words := shlex.split(text):
                yield [words[0].rpartition("/")[2], *words[1:]]
            words = []
        else:
            words.append(word)
