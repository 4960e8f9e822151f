"""Tests of the documentation: every page can be reached from the first one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS = ("tutorial", "howto", "handbook", "explanation", "reference")
DECISIONS = "adr"
LINK = re.compile(r"\]\(([^)#]+\.md)")
"""A relative link to a page, without its anchor."""


def pages(*sections: str) -> Counter[str]:
    return Counter(
        str(page.relative_to(DOCS)) for name in sections for page in (DOCS / name).rglob("*.md")
    )


def entries(item: Any) -> list[str]:
    """Return the pages of a part of mkdocs.yml's ``nav``."""
    if isinstance(item, str):
        return [item]
    children = item.values() if isinstance(item, dict) else item
    return [page for child in children for page in entries(child)]


def test_first_page_links_every_page_once() -> None:
    assert Counter(LINK.findall((DOCS / "index.md").read_text())) == pages(*SECTIONS)


def test_navigation_has_every_page_once() -> None:
    text = (DOCS.parent / "mkdocs.yml").read_text()
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]

    assert Counter(entries(nav)) == pages(*SECTIONS, DECISIONS) + Counter(["index.md"])


def test_links_between_pages_lead_to_pages() -> None:
    broken = [
        f"{page.relative_to(DOCS)}: {target}"
        for page in DOCS.rglob("*.md")
        for target in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).is_file()
    ]

    assert broken == []
