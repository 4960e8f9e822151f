"""Parser of one template file; each error is reported with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from aitne.core.errors import TemplateError
from aitne.core.models.template import Limit, Template
from aitne.core.validation_messages import explain_error

MAX_BYTES = 1 << 20


class _Loader(yaml.SafeLoader):
    """YAML loader that also refuses duplicate keys in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is named twice", key.start_mark
                    )
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def load_template(path: Path) -> Template:
    """Load the template in ``path``.

    Raises:
        TemplateError: the file cannot be read, is not YAML, or does not match the schema.
    """
    node, content = _parse_yaml(path, _read_text(path))
    try:
        template = Template.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = _list_existing_steps(node, first["loc"])
        raise TemplateError(
            str(path),
            _get_line_number(node, first["loc"]),
            _describe_validation_error(location, first),
        ) from error
    for location, reason in _list_inconsistencies(template):
        raise TemplateError(
            str(path), _get_line_number(node, location), f"{_format_location(location)}: {reason}"
        )
    return template


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TemplateError(str(path), None, f"it is larger than {MAX_BYTES} bytes")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TemplateError(str(path), None, f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TemplateError(str(path), None, f"it is not UTF-8: {error.reason}") from error


def _parse_yaml(path: Path, text: str) -> tuple[yaml.MappingNode, Any]:
    """Return the YAML nodes of the file, which have line numbers, and its values."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if isinstance(node, yaml.MappingNode):
                return node, loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise TemplateError(str(path), line, error.problem or "this is not YAML") from error
    except RecursionError as error:
        raise TemplateError(str(path), None, "it is nested too deeply") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError) as error:
        # Not YAMLError: an invalid date or number, for example.
        raise TemplateError(str(path), None, f"this is not YAML: {error}") from error
    raise TemplateError(str(path), 1, "a template is a mapping of fields, such as name: …")


def _list_inconsistencies(template: Template) -> Iterator[tuple[Sequence[str | int], str]]:
    """Yield errors that the schema cannot detect: defaults outside their own limits."""
    for index, parameter in enumerate(template.parameters):
        if parameter.default is not None:
            try:
                parameter.convert_value(parameter.default)
            except ValueError as error:
                yield ("parameters", index, "default"), str(error)
    for name, limit in template.resources:
        if isinstance(limit, Limit) and limit.problem is not None:
            yield ("resources", name, "default"), limit.problem


def _follow_location(
    node: yaml.Node, location: Sequence[str | int]
) -> Iterator[tuple[str | int, yaml.Node, yaml.Node]]:
    """Follow ``location`` from ``node`` as far as it exists; yield the step, the node of the key or
    item, and the node of the value.
    """
    for step in location:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    yield step, key, value
                    node = value
                    break
            else:
                # Not in the file: a missing field, or a part that only the validator has.
                continue
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            yield step, node, node


def _get_line_number(node: yaml.Node, location: Sequence[str | int]) -> int:
    line: int = node.start_mark.line + 1
    for _, key, _ in _follow_location(node, location):
        line = key.start_mark.line + 1
    return line


def _list_existing_steps(node: yaml.Node, location: Sequence[str | int]) -> Sequence[str | int]:
    return [step for step, _, _ in _follow_location(node, location)]


def _format_location(location: Sequence[str | int]) -> str:
    return ".".join(map(str, location))


def _describe_validation_error(location: Sequence[str | int], error: Any) -> str:
    """Return a description of a validation error of pydantic.

    The description begins with the field, such as ``resources.cpu.max: must be a whole number``.
    """
    if error["type"] == "missing":
        return f"{_format_location([*location, error['loc'][-1]])} is missing"
    if error["type"] == "extra_forbidden":
        return f"{_format_location(location)} is not a known field"
    return (
        f"{_format_location(location)}: {explain_error(error)}"
        if location
        else explain_error(error)
    )
