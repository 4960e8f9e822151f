"""Layers of limits: those granted to a project, those that its managers set, and those of a
member.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aitne.core.errors import FieldProblem
from aitne.core.models.limits import Limits

_SINGLE = (
    *("max_gpus", "max_cpus", "max_memory_bytes", "max_nodes", "max_jobs", "max_submitted"),
    *("max_wall_s", "gpu_hours"),
)


def combine_limits(granted: Limits, lowered: Limits) -> Limits:
    """Return the smaller value of each limit, and the QOS that both permit; if they have none in
    common, the granted QOS.
    """
    single = {
        name: _find_minimum(getattr(granted, name), getattr(lowered, name)) for name in _SINGLE
    }
    types = {
        name: _find_minimum(granted.max_gpus_by_type.get(name), lowered.max_gpus_by_type.get(name))
        for name in {**granted.max_gpus_by_type, **lowered.max_gpus_by_type}
    }
    # An empty list permits all QOS: it must never result from two lists without a common one.
    shared = tuple(qos for qos in granted.qos if qos in lowered.qos)
    return Limits.model_validate(
        {**single, "max_gpus_by_type": types, "qos": shared or granted.qos}
    )


def cap_member_limits(project: Limits, member: Limits) -> Limits:
    """Return a member's own limits, each reduced to the project's limit if that is lower. The
    project's limits may have been lowered after the member's were set.
    """
    both = combine_limits(project, member)
    single = {
        name: None if getattr(member, name) is None else getattr(both, name) for name in _SINGLE
    }
    types = {name: both.max_gpus_by_type[name] for name in member.max_gpus_by_type}
    qos = both.qos if member.qos else ()
    return Limits.model_validate({**single, "max_gpus_by_type": types, "qos": qos})


def list_limit_problems(requested: Limits, granted: Limits) -> Iterator[FieldProblem]:
    """Yield a problem for each of the limits ``requested``, which a manager wants to set in a project,
    that exceeds the limit ``granted`` to the project.

    In Slurm, the time limit and the QOS of a member's association override the values of the
    account, so they must not exceed the project's values.
    """
    for name in _SINGLE:
        yield from _check_maximum(name, getattr(requested, name), getattr(granted, name))
    for kind, count in requested.max_gpus_by_type.items():
        maximum = granted.max_gpus_by_type.get(kind, granted.max_gpus)
        yield from _check_maximum(f"max_gpus_by_type.{kind}", count, maximum)
    for qos in requested.qos:
        if qos not in granted.qos:
            allowed = ", ".join(granted.qos) or "none: an administrator grants them"
            yield FieldProblem("qos", "is not granted to the project", qos, allowed)


def _find_minimum(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _check_maximum(name: str, requested: Any, maximum: int | None) -> Iterator[FieldProblem]:
    if requested is not None and maximum is not None and requested > maximum:
        yield FieldProblem(
            name, "exceeds the limit granted to the project", str(requested), f"at most {maximum}"
        )
