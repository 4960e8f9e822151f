"""The commands and notebook cells that the documents tell a reader to type."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOTEBOOK_TUTORIAL = "tutorial/distributed-notebook.md"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CLONE = "/home/mira/aitne"
"""The clone of the documents' reader."""


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
    """Return the cells of a tutorial's notebook, with paths of this clone.

    Each has its code and the lines of output that the page shows.
    """
    found: list[dict[str, object]] = []
    for kind, body in _BLOCK.findall((DOCS / page).read_text()):
        if kind == "python":
            found.append({"code": body.strip().replace(_CLONE, str(ROOT)), "lines": []})
        elif kind == "text":
            found[-1]["lines"] = body.splitlines()
    return found
