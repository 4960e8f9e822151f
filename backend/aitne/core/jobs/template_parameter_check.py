"""Check of a template's parameters against their types and limits. Values are not converted
silently.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.job import Scalar
from aitne.core.models.template import Template


def format_suggestion(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean "epochs"?`` with the most similar of ``names``; an empty text if none
    is similar.
    """
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_parameters(template: Template, arguments: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the values of all parameters of the template, in the template's order, with defaults
    for missing ones.

    Raises:
        InvalidInput: values are wrong, missing or unknown; there is one problem for each.
    """
    parameters = {parameter.name: parameter for parameter in template.parameters}
    problems = [
        FieldProblem(
            f"parameters.{name}",
            f"template {template.name} has no such parameter{format_suggestion(name, parameters)}",
            str(value),
            ", ".join(parameters) or "no parameters at all",
        )
        for name, value in arguments.items()
        if name not in parameters
    ]
    values: dict[str, Scalar] = {}
    for name, parameter in parameters.items():
        value = arguments.get(name, parameter.default)
        try:
            if value is None:
                raise ValueError("a value is needed")
            values[name] = parameter.convert_value(value)
        except ValueError as error:
            shown = None if value is None else str(value)
            problems.append(
                FieldProblem(f"parameters.{name}", str(error), shown, parameter.allowed_values)
            )
    if problems:
        raise InvalidInput("; ".join(f"{p.field}: {p.message}" for p in problems), problems)
    return values
