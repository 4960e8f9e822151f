"""Parameter settings of a sweep. Pure: the same sweep always results in the same settings, also
with later releases.

Only ``random()`` of Python's generator is used, because only its numbers for a seed are guaranteed
to stay the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from random import Random

from aitne.core.models.sweep import (
    Goal,
    Method,
    NumberType,
    RangeSpec,
    Scalar,
    SweepSpec,
)

PREFIX = "AITNE_PARAM_"
_TRIES = 20
"""Number of consecutive random samples that may equal earlier ones before no further ones are
drawn.
"""
_DIGITS = 6

Setting = dict[str, Scalar]


def expand_sweep(sweep: SweepSpec) -> list[Setting]:
    """Return one parameter setting for each task, in the order of their indices, without
    duplicates.

    If two random sweeps have the same seed, the settings of the one with fewer samples are the
    first ones of the other. A random sweep has fewer settings than samples if there are not so many
    different ones.
    """
    if sweep.method is Method.RANDOM:
        return _draw_settings(sweep)
    names = list(sweep.parameters)
    values = [_require_list(sweep.parameters[name]) for name in names]
    rows = itertools.product(*values) if sweep.method is Method.GRID else zip(*values, strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def make_sweep_variables(setting: Mapping[str, Scalar]) -> dict[str, str]:
    """Return the environment variables of a parameter setting: ``lr`` becomes
    ``AITNE_PARAM_LR``.
    """
    return {PREFIX + name.upper(): format_parameter_value(value) for name, value in setting.items()}


def format_parameter_value(value: Scalar) -> str:
    """Return the text of a parameter value for an environment variable."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def find_best_task(values: Mapping[int, float], goal: Goal) -> int | None:
    """Return the index of the task with the best value; the smallest index if several are equal,
    None if there are no values.
    """
    if not values:
        return None
    sign = -1 if goal is Goal.MAX else 1
    return min(values, key=lambda task: (sign * values[task], task))


def format_array(tasks: int, max_parallel: int | None) -> str:
    """Return the array specification for ``tasks`` tasks in the form of Slurm's ``--array``, such
    as ``0-9%2``.
    """
    body = "0" if tasks == 1 else f"0-{tasks - 1}"
    return body if max_parallel is None else f"{body}%{max_parallel}"


def _draw_settings(sweep: SweepSpec) -> list[Setting]:
    random = Random(sweep.seed)  # noqa: S311 - no secret: it is to be the same each time
    settings: dict[tuple[tuple[type, Scalar], ...], Setting] = {}
    count, missed = sweep.samples or 0, 0
    while len(settings) < count and missed < _TRIES * (1 + len(settings)):
        setting = {
            name: _draw_value(choices, random.random())
            for name, choices in sweep.parameters.items()
        }
        key = tuple((type(value), value) for value in setting.values())
        missed = missed + 1 if key in settings else 0
        settings.setdefault(key, setting)
    return list(settings.values())


def _draw_value(choices: RangeSpec | Sequence[Scalar], at: float) -> Scalar:
    if not isinstance(choices, RangeSpec):
        return choices[int(at * len(choices))]
    low, high = choices.min, choices.max
    integers = choices.type is NumberType.INT
    if integers:
        high += 1
    if choices.log:
        value = math.exp(math.log(low) + at * (math.log(high) - math.log(low)))
    else:
        value = low * (1 - at) + high * at
    if integers:
        return min(int(choices.max), max(int(low), math.floor(value)))
    return min(high, max(low, float(f"{value:.{_DIGITS}g}")))


def _require_list(choices: RangeSpec | Sequence[Scalar]) -> Sequence[Scalar]:
    if isinstance(choices, RangeSpec):
        raise ValueError("only a random sweep has ranges")
    return choices
