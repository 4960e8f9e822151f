"""Conversion of a job file's content to YAML in the style that users write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from aitne.core.float_encoding import decode_floats

_WIDEST = 1 << 16
"""Line width of the YAML, large enough to keep a command on one line."""


_NUMBERS = frozenset("0123456789+-.")


class _Dumper(yaml.SafeDumper):
    """YAML writer in block style; a text of several lines is written as a literal block."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their key, which is usual in hand-written YAML."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if not all(char.isprintable() or char in "\n\t" for char in value):
        style = '"'  # a line break such as U+0085 is escaped in this style alone
    elif "\n" in value:
        style = "|"
    elif value[:1] in _NUMBERS:
        style = "'"  # readers differ in what they take for a number, such as 08
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)


def render_job_file(content: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """Return the YAML, below ``comments``, one comment line for each; ``aitne apply`` reads the
    same content back.
    """
    head = "".join(f"# {' '.join(line.split())}\n" if line else "#\n" for line in comments)
    body = yaml.dump(
        decode_floats(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDEST
    )
    return head + body
