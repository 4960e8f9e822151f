"""Sources of the values of settings, for administrators.

``aitne up`` passes all settings to its child processes as environment variables, and the source of
each in ``AITNE_SOURCES``. A process that was started without ``aitne up`` determines the sources
itself.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, BeforeValidator, Field
from pydantic.fields import FieldInfo

from aitne.core.models.base import (
    Frozen,
    convert_duration,
    convert_keep_time,
    convert_memory,
    deprecated_copy,
)
from aitne.core.settings import Settings
from aitne.core.units import format_duration, format_memory
from aitne.local_system.settings_loader import find_config_path

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
    """Detected by the platform, for example from the development cluster on this machine."""


class SettingUnit(StrEnum):
    """Unit of a number."""

    BYTES = "bytes"
    SECONDS = "seconds"


_UNITS: dict[object, SettingUnit] = {
    convert_memory: SettingUnit.BYTES,
    convert_duration: SettingUnit.SECONDS,
    convert_keep_time: SettingUnit.SECONDS,
}
_SUFFIXES = {"_bytes": SettingUnit.BYTES, "_s": SettingUnit.SECONDS}


class SettingView(Frozen):
    """One setting with its value and source."""

    name: str = Field(
        description="Name of the setting in aitne.toml.", examples=["limits.max_nodes"]
    )
    value: str | None = Field(
        description="Value as JSON; null: unset. Secrets are masked.", examples=["64"]
    )
    default: str | None = Field(description="Default value as JSON.")
    unit: SettingUnit | None = Field(description="Unit of the values; null: they have none.")
    source: SourceKind = Field(description="Source of the value.")
    location: str | None = Field(
        description="The file with its line, or the variable; null: neither.",
        examples=["/srv/aitne/aitne.toml:12"],
    )
    description: str = Field(description="Purpose of the setting.")
    where: ClassVar = deprecated_copy("location", str | None)


def format_quantities(settings: BaseModel) -> dict[str, Any]:
    """Return the settings that are set as JSON values, with quantities as a user writes them."""
    values: dict[str, Any] = settings.model_dump(mode="json", exclude_none=True)
    for name, value, field in _list_leaves(settings):
        *sections, last = name.split(".")
        section = values
        for part in sections:
            section = section[part]
        if type(value) is int and (unit := _unit_of_type(field)) and last in section:
            section[last] = (
                format_memory(value) if unit is SettingUnit.BYTES else format_duration(value)
            )
    return values


def describe_settings(settings: Settings) -> list[SettingView]:
    """Return all settings of this process with their sources: top-level settings first, then those
    of sections, each sorted by name. Values of secrets are masked.
    """
    sources_text = os.environ.get(VARIABLE)
    sources_by_name = (
        find_sources(settings) if sources_text is None else _parse_sources(sources_text)
    )
    default = Settings.model_construct()
    views = []
    for name, value, field in _list_leaves(settings):
        kind, origin = sources_by_name.get(name, (SourceKind.DEFAULT, None))
        views.append(
            SettingView(
                name=name,
                value=_format_value(name, value),
                default=_format_value(name, _get_value(default, name)),
                unit=_find_unit(name, field),
                source=kind,
                location=origin,
                description=field.description or "",
            )
        )
    return sorted(views, key=lambda view: ("." in view.name, view.name))


def find_sources(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> dict[str, tuple[SourceKind, str | None]]:
    """Return the kind and the location of the source of each setting, by name. The location is the
    file with its line, or the environment variable; None: neither. Settings that have their default
    values are omitted.

    Args:
        environ: environment variables; None: those of this process.
    """
    environ = os.environ if environ is None else environ
    path = find_config_path(settings.data_dir)
    in_file = _read_file_values(path)
    default = Settings.model_construct()
    by_name: dict[str, tuple[SourceKind, str | None]] = {}
    for name, value, _ in _list_leaves(settings):
        # Settings of a section cannot be passed on the command line, which takes precedence.
        passed = "." not in name
        variable = _find_variable(name, environ)
        entry = in_file.get(name)
        if variable is not None and not (
            passed and not _is_same_value(_parse_json_or_text(environ[variable]), value)
        ):
            by_name[name] = (SourceKind.ENVIRONMENT, variable)
        elif variable is None and entry and not (passed and not _is_same_value(entry[0], value)):
            by_name[name] = (SourceKind.FILE, f"{path}:{entry[1]}")
        elif value != _get_value(default, name):
            by_name[name] = (SourceKind.COMMAND_LINE if passed else SourceKind.FOUND, None)
    return by_name


def format_sources(settings: Settings) -> str:
    """Return the sources as JSON text for the environment variable ``AITNE_SOURCES``."""
    return json.dumps(
        {name: [kind, origin] for name, (kind, origin) in find_sources(settings).items()}
    )


def _parse_sources(text: str) -> dict[str, tuple[SourceKind, str | None]]:
    return {name: (SourceKind(kind), origin) for name, (kind, origin) in json.loads(text).items()}


def _list_leaves(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, FieldInfo]]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _list_leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field


def _find_unit(name: str, field: FieldInfo) -> SettingUnit | None:
    """Return the unit in which a setting is stored, from its type or the suffix of its name; None:
    the value has no unit.
    """
    typed = _unit_of_type(field)
    return typed or next((unit for end, unit in _SUFFIXES.items() if name.endswith(end)), None)


def _unit_of_type(field: FieldInfo) -> SettingUnit | None:
    metadata = [*field.metadata]
    for part in get_args(field.annotation):
        metadata += getattr(part, "__metadata__", ())
    for entry in metadata:
        if isinstance(entry, BeforeValidator) and entry.func in _UNITS:
            return _UNITS[entry.func]
    return None


def _get_value(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = getattr(model, part)
    return model


def _to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def _format_value(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if _SECRET.search(name) and not isinstance(value, Path | bool | int):
        return MASK
    plain = json.dumps(_to_json(value), ensure_ascii=False, default=str)
    return _IN_URL.sub(f"{MASK}@", plain)


def _find_variable(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the name of the environment variable that sets the setting ``name``, either alone or
    as part of a whole section; None if no variable sets it.
    """
    parts = name.upper().split(".")
    for count in range(len(parts), 0, -1):
        variable = "AITNE_" + "__".join(parts[:count])
        if variable in environ:
            return variable
    return None


def _parse_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_same_value(source_value: Any, value: Any) -> bool:
    """Return whether ``value`` may be the result of converting ``source_value``, which is usually a
    text.
    """
    return bool(_to_json(value) == source_value or str(value) == str(source_value))


def _read_file_values(path: Path) -> dict[str, tuple[Any, int]]:
    """Return the values in the settings file with their line numbers, by full name of the setting;
    empty if the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        tree = tomllib.loads(text)
    except (OSError, ValueError):
        return {}  # loading the settings reports a file that cannot be read
    lines = _find_line_numbers(text)
    return {name: (value, lines.get(name, 1)) for name, value in _flatten(tree)}


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        full = f"{prefix}{name}"
        yield full, value
        if isinstance(value, dict):
            yield from _flatten(value, f"{full}.")


def _find_line_numbers(text: str) -> dict[str, int]:
    section, lines = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            section = _remove_quotes(header[1]) + "."
            lines.setdefault(section.rstrip("."), number)
        elif key := _KEY.match(line):
            lines.setdefault(section + _remove_quotes(key[1]), number)
    return lines


def _remove_quotes(name: str) -> str:
    return name.replace('"', "").replace("'", "")
