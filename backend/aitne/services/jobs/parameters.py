"""Check of a template's parameters against their types and limits. Values are not converted
silently.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.base import passable
from aitne.core.models.job import Scalar
from aitne.core.models.template import Parameter, ParameterType, Template


def suggestion(name: str, names: Iterable[str]) -> str:
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
            f"template {template.name} has no such parameter{suggestion(name, parameters)}",
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
            values[name] = check_value(parameter, value)
        except ValueError as error:
            shown = None if value is None else str(value)
            problems.append(
                FieldProblem(f"parameters.{name}", str(error), shown, allowed(parameter))
            )
    if problems:
        raise InvalidInput("; ".join(f"{p.field}: {p.message}" for p in problems), problems)
    return values


def check_value(parameter: Parameter, value: Scalar) -> Scalar:
    """Return the value converted to its parameter's type.

    Raises ``ValueError`` with a description of the problem.
    """
    kind = parameter.type
    if kind is ParameterType.BOOLEAN:
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is not true or false")
        return value
    if kind in (ParameterType.INTEGER, ParameterType.NUMBER):
        return _number(parameter, value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text; write it in quotes")
    if kind is ParameterType.CHOICE:
        if value not in parameter.choices:
            raise ValueError(f"{value!r} is not one of the choices")
        return value
    if len(value) > parameter.max_length:
        raise ValueError(f"it has {len(value)} characters; the limit is {parameter.max_length}")
    if kind is ParameterType.PATH and not value:
        raise ValueError("a path is needed")
    if parameter.pattern is not None and re.fullmatch(parameter.pattern, value) is None:
        raise ValueError(f"{value!r} does not have the right form")
    return passable(value)


def _number(parameter: Parameter, value: Scalar) -> Scalar:
    whole = parameter.type is ParameterType.INTEGER
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("infinite numbers and NaN are not possible")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not {'a whole number' if whole else 'a number'}")
    if whole and isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number")
        value = int(value)
    if parameter.minimum is not None and value < parameter.minimum:
        raise ValueError(f"{value} is less than {_bound(parameter.minimum)}")
    if parameter.maximum is not None and value > parameter.maximum:
        raise ValueError(f"{value} is more than {_bound(parameter.maximum)}")
    return value


def allowed(parameter: Parameter) -> str:
    """Return a description of the values that the parameter takes."""
    match parameter.type:
        case ParameterType.BOOLEAN:
            return "true or false"
        case ParameterType.CHOICE:
            return ", ".join(parameter.choices)
        case ParameterType.INTEGER | ParameterType.NUMBER:
            kind = "a whole number" if parameter.type is ParameterType.INTEGER else "a number"
            low, high = parameter.minimum, parameter.maximum
            if low is not None and high is not None:
                return f"{kind} from {_bound(low)} to {_bound(high)}"
            if low is not None:
                return f"{kind}, at least {_bound(low)}"
            return kind if high is None else f"{kind}, at most {_bound(high)}"
        case _:
            kind = "a path" if parameter.type is ParameterType.PATH else "text"
            form = "" if parameter.pattern is None else f" that matches {parameter.pattern}"
            return f"{kind} of at most {parameter.max_length} characters{form}"


def _bound(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
