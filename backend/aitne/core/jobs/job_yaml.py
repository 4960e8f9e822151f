"""A job file's content as YAML in the form that a user would write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

_WIDEST = 1 << 16
"""Line width of the YAML: a command stays on one line, because folded ones are hard to read."""


_NUMBERS = frozenset("0123456789+-.")


class _Dumper(yaml.SafeDumper):
    """Dumper in block style; a text of several lines is kept as it is."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their name, the usual style of hand-written YAML."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value and _blockable(value):
        style = "|"
    elif value[:1] in _NUMBERS:
        style = "'"  # readers differ in what they take for a number, such as 08
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _blockable(value: str) -> bool:
    return all(char.isprintable() or char in "\n\t" for char in value)


_Dumper.add_representer(str, _text)


def write_job_file(content: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """Return the YAML, below ``comments``; ``aitne apply`` reads the same content back."""
    head = "".join(f"# {' '.join(line.split())}\n" if line else "#\n" for line in comments)
    body = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDEST)
    return head + body
