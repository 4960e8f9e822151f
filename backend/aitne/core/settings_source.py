"""Sources of the values of all settings, for administrators.

``aitne up`` passes all settings to its children in variables, and beside them the source of each
(``AITNE_SOURCES``); a process that was started by hand determines the sources itself.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from aitne.core.models.base import Frozen
from aitne.core.settings import Settings, config_path

VARIABLE = "AITNE_SOURCES"
_SECRET = re.compile(r"(password|secret|token|api_key|passphrase)$")
_IN_URL = re.compile(r"(?<=://)([^/@\s]*)@")
_HEADER = re.compile(r"^\s*\[+\s*([A-Za-z0-9_.\"'-]+)\s*\]+")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")
MASK = "••••••"


class SourceKind(StrEnum):
    """Source of a setting's value."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    COMMAND_LINE = "command_line"
    FOUND = "found"
    """The platform found it out, such as from the development cluster on this machine."""


class SettingView(Frozen):
    """One setting with its value and source."""

    name: str = Field(description="As it is written in aitne.toml.", examples=["limits.max_nodes"])
    value: str | None = Field(
        description="As JSON; null: unset. Secrets are masked.", examples=["64"]
    )
    default: str | None = Field(description="What it would be if nobody had set it, as JSON.")
    source: SourceKind = Field(description="What set it.")
    where: str | None = Field(
        description="The file with its line, or the variable; null: neither.",
        examples=["/srv/aitne/aitne.toml:12"],
    )
    description: str = Field(description="What it is for.")


def shown(settings: Settings) -> list[SettingView]:
    """Return all settings of this process, by name, secrets masked."""
    told = os.environ.get(VARIABLE)
    known = sources(settings) if told is None else _read(told)
    default = Settings.model_construct()
    found = []
    for name, value, description in _leaves(settings):
        kind, where = known.get(name, (SourceKind.DEFAULT, None))
        found.append(
            SettingView(
                name=name,
                value=_text(name, value),
                default=_text(name, _at(default, name)),
                source=kind,
                where=where,
                description=description,
            )
        )
    return sorted(found, key=lambda each: ("." in each.name, each.name))


def sources(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> dict[str, tuple[SourceKind, str | None]]:
    """Return the source of each setting that has one, by name; the others have their defaults."""
    environ = os.environ if environ is None else environ
    path = config_path(settings.data_dir)
    in_file = _in_file(path)
    default = Settings.model_construct()
    found: dict[str, tuple[SourceKind, str | None]] = {}
    for name, value, _ in _leaves(settings):
        # What stands in a section cannot be passed on the command line, which wins over all else.
        passed = "." not in name
        variable = _variable(name, environ)
        said = in_file.get(name)
        if variable is not None and not (passed and not _same(_loaded(environ[variable]), value)):
            found[name] = (SourceKind.ENVIRONMENT, variable)
        elif variable is None and said and not (passed and not _same(said[0], value)):
            found[name] = (SourceKind.FILE, f"{path}:{said[1]}")
        elif value != _at(default, name):
            found[name] = (SourceKind.COMMAND_LINE if passed else SourceKind.FOUND, None)
    return found


def written(settings: Settings) -> str:
    """Return the sources as text for ``AITNE_SOURCES``."""
    return json.dumps({name: [kind, where] for name, (kind, where) in sources(settings).items()})


def _read(told: str) -> dict[str, tuple[SourceKind, str | None]]:
    return {name: (SourceKind(kind), where) for name, (kind, where) in json.loads(told).items()}


def _leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.description or ""


def _at(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = getattr(model, part)
    return model


def _json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple | set | frozenset):
        return [_json(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _json(each) for key, each in value.items()}
    return str(value) if isinstance(value, Path) else value


def _text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if _SECRET.search(name) and not isinstance(value, Path | bool | int):
        return MASK
    plain = json.dumps(_json(value), ensure_ascii=False, default=str)
    return _IN_URL.sub(f"{MASK}@", plain)


def _variable(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the variable that sets it: its own, or that of its section; None: there is none."""
    parts = name.upper().split(".")
    for count in range(len(parts), 0, -1):
        variable = "AITNE_" + "__".join(parts[:count])
        if variable in environ:
            return variable
    return None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _same(said: Any, value: Any) -> bool:
    """Return whether that text may have become this value."""
    return bool(_json(value) == said or str(value) == str(said))


def _in_file(path: Path) -> dict[str, tuple[Any, int]]:
    """Return the values that the file sets, by full name, each with its line."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = tomllib.loads(text)
    except (OSError, ValueError):
        return {}  # settings that were loaded say by themselves when their file cannot be read
    lines = _lines(text)
    return {name: (value, lines.get(name, 1)) for name, value in _flat(tree)}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        full = f"{prefix}{name}"
        yield full, value
        if isinstance(value, dict):
            yield from _flat(value, f"{full}.")


def _lines(text: str) -> dict[str, int]:
    section, found = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _bare(header[1]) + "."
            found.setdefault(section.rstrip("."), number)
        elif key := _KEY.match(line):
            found.setdefault(section + _bare(key[1]), number)
    return found


def _bare(name: str) -> str:
    return name.replace('"', "").replace("'", "")
