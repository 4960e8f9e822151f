"""Conversion of template parameters on the command line to the types that the template declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aitne.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aitne.client import Client

YES = ("true", "yes", "on", "1")
NO = ("false", "no", "off", "0")


def parse_parameters(
    client: Client, template: str, texts: Sequence[str]
) -> dict[str, str | int | float | bool]:
    """Convert ``NAME=VALUE`` texts to template parameters: ``["epochs=5"]`` becomes ``{"epochs":
    5}``.

    A value that does not match its type is passed on unchanged, so that the platform's error lists
    what is allowed.

    Raises:
        InvalidInput: a text is not ``NAME=VALUE``.
        NotFound: there is no such template.
    """
    types = {
        parameter.name: parameter.type for parameter in client.templates.get(template).parameters
    }
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput.field(
                "--param", "it has no value", value=text, allowed="NAME=VALUE, such as epochs=5"
            )
        values[name] = _parse_value(types.get(name), value)
    return values


def _parse_value(kind: str | None, text: str) -> str | int | float | bool:
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return text
    if kind == "boolean" and text.lower() in YES + NO:
        return text.lower() in YES
    return text
