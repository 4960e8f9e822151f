"""Rendering of settings as TOML, which the standard library can only read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def render_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Return the values as TOML, nested mappings as tables. Tables come after plain values, as TOML
    requires. ``prefix`` is the name of the enclosing table.
    """
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    lines = [f"{_render_key(name)} = {_render_value(value)}\n" for name, value in plain.items()]
    for name, value in values.items():
        if isinstance(value, dict):
            table = f"{prefix}{_render_key(name)}"
            lines.append(f"\n[{table}]\n{render_toml(value, f'{table}.')}")
    return "".join(lines)


def _render_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _render_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_render_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_render_key(name)} = {_render_value(item)}" for name, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False)  # TOML's basic strings have JSON's escapes
