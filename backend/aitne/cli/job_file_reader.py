"""Reading job files: conversion of YAML to JSON for the API, with the line number of each field.

The platform validates the contents of a job file; here only the YAML is parsed. It is parsed as
YAML 1.2: ``on`` and ``no`` are strings, ``1:30:00`` is text, a date is text.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import Any

import yaml

from aitne.core.errors import InvalidInput

MAX_BYTES = 4 << 20
MAX_FILES = 1_000
"""Maximum number of job files in one YAML file, separated by ``---``."""
MAX_FIELDS = 100_000
"""Maximum number of fields in a job file. It is never reached except by nested YAML aliases, which
could multiply fields without limit."""


class _Loader(yaml.SafeLoader):
    """YAML loader with the values and tags of YAML 1.2's core schema, all of which exist in JSON
    too."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(rf"(?:{_pattern})\Z"),
        [*_first, ""] if _tag == "null" else list(_first),
    )


def _construct_integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    # YAML 1.1 would read 010 as eight.
    try:
        return int(node.value)
    except ValueError:
        raise yaml.constructor.ConstructorError(
            None, None, "this is not a valid integer", node.start_mark
        ) from None


_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in ("null", "bool", "float", "str", "seq", "map")
}
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_integer)


class JobFileSource:
    """Content of a job file with the line number of each field, so that errors can name
    the line.
    """

    def __init__(self, name: str, content: dict[str, Any], lines: dict[str, int]) -> None:
        self.name = name
        self.content = content
        self._lines = lines

    def find_line(self, field: str) -> int | None:
        """Return the line number of a field such as ``resources.gpu``. If the file does not contain
        the field, return that of its nearest parent; None if it contains neither.
        """
        while field:
            if field in self._lines:
                return self._lines[field]
            field = field.rpartition(".")[0]
        return None

    def with_lines(self, error: InvalidInput) -> JobFileInvalid:
        """Convert an error of the platform about this job file to one whose message names the lines
        of the invalid fields.
        """
        return JobFileInvalid(error, self)


class JobFileInvalid(InvalidInput):
    """Error: the platform rejects the job file. Its message names the lines of the invalid
    fields."""

    def __init__(self, error: InvalidInput, source: JobFileSource) -> None:
        super().__init__(error.message, error.problems)
        self.code = error.code
        self.source = source


def read_job_file(path: str) -> JobFileSource:
    """Read a job file; ``-`` is the standard input.

    Raises:
        InvalidInput: the file cannot be read, or is not one YAML mapping; the message names file
            and line.
    """
    sources = read_job_files(path)
    if len(sources) > 1:
        raise InvalidInput(
            f"{sources[0].name} has {len(sources)} job files, separated by `---`, and this takes "
            "one. `aitne apply` submits them all."
        )
    return sources[0]


def read_job_files(path: str, *, synced: str | None = None) -> list[JobFileSource]:
    """Read all job files in one YAML file, separated by ``---``, or the one that a batch script for
    sbatch is converted to. ``synced`` is the folder that is uploaded for the job; None: none is.

    Raises ``InvalidInput`` as ``read_job_file`` does.
    """
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            text = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"{name} is larger than 4 MiB: this is not a job file.")
    begins_as_script = text.startswith((b"#!", codecs.BOM_UTF8 + b"#!"))
    if begins_as_script:
        from aitne.cli import batch_script_conversion

        if (script := batch_script_conversion.decode_script(text, name)) is not None:
            imported = batch_script_conversion.convert_script(script, path, synced=synced)
            return [JobFileSource(name, imported.file, imported.lines)]
    try:
        sources = _parse_job_files(name, text)
    except InvalidInput as error:
        if not begins_as_script:
            raise
        hint = f"If it is a batch script: `aitne import {path} --submit`."
        raise InvalidInput(f"{error.message} {hint}") from error
    for source in sources:
        _make_paths_absolute(source.content, None if path == "-" else path)
    return sources


def parse_value(text: str) -> Any:
    """Parse a value as in a job file: ``0.1`` is a number, ``[1, 2]`` a list. A text that is not
    valid YAML is returned unchanged.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, KeyError, RecursionError):
        return text


def _parse_job_files(name: str, text: bytes) -> list[JobFileSource]:
    sources: list[JobFileSource] = []
    try:
        loader = _Loader(text)
        try:
            while loader.check_node() or not sources:
                node = loader.get_node()
                if _is_empty(node) and (sources or loader.check_node()):
                    continue  # nothing between two lines with ---
                if not isinstance(node, yaml.MappingNode):
                    raise InvalidInput(
                        f"{name} is not a job file: it has no fields. Write `name: value` lines, "
                        "such as `commands: [python train.py]`."
                    )
                lines: dict[str, int] = {}
                _collect_lines(name, node, "", lines)
                _mark_env_values_as_text(node)
                sources.append(JobFileSource(name, loader.construct_document(node), lines))
                if len(sources) > MAX_FILES:
                    raise InvalidInput(f"{name} has more than {MAX_FILES} job files.")
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InvalidInput(_format_yaml_error(name, error)) from error
    except RecursionError:
        raise InvalidInput(f"{name} is not a job file: it is nested too deeply.") from None
    except (ValueError, KeyError) as error:
        raise InvalidInput(f"{name} is not YAML: {error} is not what its tag says.") from error
    return sources


def _is_empty(node: yaml.Node | None) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == ""


def _collect_lines(name: str, node: yaml.Node, prefix: str, lines: dict[str, int]) -> None:
    """Collect the line number of each field in ``lines``. Raises ``InvalidInput`` for a key that is
    repeated or not text."""
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            _collect_line(name, item, f"{prefix}{number}", lines)
            _collect_lines(name, item, f"{prefix}{number}.", lines)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise InvalidInput(f"{name}:{line}: a field's name must be a word.")
        if key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
            key.tag = "tag:yaml.org,2002:str"
        field = f"{prefix}{key.value}"
        if field in lines and key.value != "<<":
            raise InvalidInput(
                f"{name}:{line}: {field} is given twice; first in line {lines[field]}."
            )
        _collect_line(name, key, field, lines)
        _collect_lines(name, value, f"{field}.", lines)


def _mark_env_values_as_text(root: yaml.MappingNode) -> None:
    """Mark numbers and truth values in the section ``env`` as text, so that 1.10 does not become
    1.1."""
    for key, section in root.value:
        if key.value == "env" and isinstance(section, yaml.MappingNode):
            for _, value in section.value:
                if value.tag.rpartition(":")[2] in ("int", "float", "bool"):
                    value.tag = "tag:yaml.org,2002:str"


def _collect_line(name: str, node: yaml.Node, field: str, lines: dict[str, int]) -> None:
    lines[field] = node.start_mark.line + 1
    if len(lines) > MAX_FIELDS:
        raise InvalidInput(
            f"{name} is not a job file: with its aliases written out it has more than "
            f"{MAX_FIELDS} fields."
        )


def _format_yaml_error(name: str, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{name}:{mark.line + 1}: not YAML: {error.problem} (column {mark.column + 1})."
    if isinstance(error, yaml.reader.ReaderError):
        return f"{name} is not YAML: {error.reason} (at character {error.position + 1})."
    return f"{name} is not YAML: {error}."


def _make_paths_absolute(content: dict[str, Any], path: str | None) -> None:
    """Make the relative paths of folders in a job file absolute, starting from the file's own
    folder, or from the current one if ``path`` is None."""
    folder = os.getcwd() if path is None else os.path.dirname(os.path.abspath(path))
    environment = content.get("environment")
    places = [(content, "workdir")]
    if isinstance(environment, dict):
        places.append((environment, "venv"))
    for part, name in places:
        value = part.get(name)
        if isinstance(value, str) and not value.startswith(("/", "~")):
            part[name] = os.path.normpath(os.path.join(folder, value))
