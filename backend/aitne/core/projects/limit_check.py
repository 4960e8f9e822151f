"""Comparison of one job with limits and their current use, and sentences about the result. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import FieldProblem
from aitne.core.models.limits import (
    GPU_TRES,
    MIB,
    AssociationUse,
    Gauge,
    LimitUsage,
    QosUse,
)
from aitne.core.models.resources import Resources
from aitne.core.units import format_duration, parse_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aitne.core.byte_size_format import Rounding

DEFAULT_QOS = "normal"
_MOST_NAMES = 5
_WORDS = {"cpu": "CPUs", "node": "nodes", GPU_TRES: "GPUs", "mem": "memory"}
_FIELDS = {"cpu": "resources.cpu", "node": "resources.nodes", "mem": "resources.memory"}


@dataclass(frozen=True, slots=True)
class LimitRequest:
    """Properties of a job that limits apply to."""

    project: str
    user: str
    """Name of the user in ``LimitUsage``."""
    resources: Resources
    time_limit_s: int
    array: str | None = None
    qos: str | None = None


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """Result of comparing a job with the limits."""

    problems: tuple[FieldProblem, ...] = ()
    """Limits that the job exceeds even if no other job runs; it could never start."""
    waits_for: str | None = None
    """Limit that would keep the job pending now, as a sentence; None: no such limit."""


def compare_with_limits(
    request: LimitRequest, limit_usage: LimitUsage, concurrent: LimitRequest | None = None
) -> LimitVerdict:
    """Compare a job with the limits that are enforced.

    Args:
        request: the job.
        limit_usage: limits and their current use.
        concurrent: job during which this one must run, such as the session of a rank group; None: no
            such job.
    """
    project, user = request.project, request.user
    if (
        "associations" in limit_usage.enforced
        and limit_usage.find_association(project, user) is None
    ):
        return LimitVerdict((_make_no_association_problem(project, user, limit_usage),))
    if "limits" not in limit_usage.enforced and "safe" not in limit_usage.enforced:
        return LimitVerdict()
    amounts = _get_requested_amounts(request)
    safe = "safe" in limit_usage.enforced
    never: list[tuple[int, FieldProblem]] = []
    waits: list[str] = []
    for association in limit_usage.list_association_chain(project, user):
        # The limits of the account also apply to the user; they are reported as the account's.
        never[:0] = _list_exceeded_limits(association, amounts, request, safe=safe)
        if concurrent is not None and association in limit_usage.list_association_chain(
            concurrent.project, concurrent.user
        ):
            never += _list_limits_exceeded_beside(
                association, amounts, _get_requested_amounts(concurrent)
            )
        waits += _list_wait_reasons(association, amounts, request, limit_usage, safe=safe)
    for qos in limit_usage.qos:
        if qos.name == (request.qos or DEFAULT_QOS):
            never += _list_exceeded_qos_limits(qos, amounts, request)
            waits += _list_qos_wait_reasons(qos, amounts, user)
    tightest: dict[str, tuple[int, FieldProblem]] = {}
    for maximum, problem in never:
        current = tightest.get(problem.field)
        if current is None or maximum < current[0]:
            tightest[problem.field] = (maximum, problem)
    problems = tuple(problem for _, problem in tightest.values())
    return LimitVerdict(problems, waits[0] if waits and not problems else None)


def summarize_use(association: AssociationUse, tres: str, limit_usage: LimitUsage) -> str | None:
    """Return a sentence on how much of the limit of the resource ``tres`` is in use and by which
    users.

    An example is ``project vision: 6 of 8 GPUs in use by alice 4, bob 2``. None if there is no
    limit.
    """
    gauge = association.tres.get(tres)
    if gauge is None or gauge.limit is None:
        return None
    by = (
        ""
        if association.user is not None
        else _format_users(_get_use_by_user(association, tres, limit_usage), tres)
    )
    return f"{describe_association(association)}: {_format_use(tres, gauge.used, gauge.limit)} in use{by}"


def _make_no_association_problem(project: str, user: str, limit_usage: LimitUsage) -> FieldProblem:
    accounts = sorted(
        association.account for association in limit_usage.associations if association.user == user
    )
    return FieldProblem(
        "slurm.account" if limit_usage.find_association(project) is None else "project",
        f"Slurm does not let {user} use the account {project}; an administrator can synchronize the "
        "two: `aitne admin sync`",
        project,
        ", ".join(accounts) or "none",
    )


def _get_requested_amounts(request: LimitRequest) -> dict[str, int]:
    """Return the resources of one task of the job by Slurm's names (TRES); memory in MiB."""
    wish = request.resources
    amounts = {
        "node": wish.nodes,
        "cpu": wish.nodes * wish.cpu,
        "mem": wish.nodes * -(-wish.memory_bytes // MIB),
        GPU_TRES: wish.nodes * wish.gpu.count,
    }
    if wish.gpu.type is not None:
        amounts[f"{GPU_TRES}:{wish.gpu.type}"] = wish.nodes * wish.gpu.count
    for name, count in wish.gres.items():
        amounts[f"gres/{name}"] = wish.nodes * count
    return {name: count for name, count in amounts.items() if count}


def _get_field(tres: str) -> str:
    if tres.startswith(GPU_TRES):
        return "resources.gpu"
    return _FIELDS.get(tres, "resources.gres")


def _format_amount(tres: str, count: int, rounding: Rounding = "nearest") -> str:
    if tres == "mem":
        return describe_bytes(count * MIB, rounding)
    return str(count)


def _get_resource_name(tres: str) -> str:
    if tres.startswith(f"{GPU_TRES}:"):
        return f"{tres.removeprefix(f'{GPU_TRES}:')} GPUs"
    return _WORDS.get(tres, tres.removeprefix("gres/"))


def _format_use(tres: str, used: int, maximum: int) -> str:
    return f"{_format_amount(tres, used, 'up')} of {_format_amount(tres, maximum, 'down')} {_get_resource_name(tres)}"


def describe_association(association: AssociationUse) -> str:
    """Return a description of the project or member to which the limits apply."""
    if association.user is None:
        return f"project {association.account}"
    return f"{association.user} in project {association.account}"


_Never = tuple[int, FieldProblem]
"""Maximum that the limit permits, and the problem with the job's request."""


def _make_too_many_problem(
    name: str, what: str, tres: str, count: int, maximum: int, allowed: int | None = None
) -> _Never:
    allowed = maximum if allowed is None else allowed
    return allowed, FieldProblem(
        _get_field(tres),
        f"it asks for {_format_amount(tres, count)} {_get_resource_name(tres)}, and {name} may use "
        f"{_format_amount(tres, maximum)} {what}",
        _format_amount(tres, count),
        f"at most {_format_amount(tres, allowed)}",
    )


def _list_exceeded_limits(
    association: AssociationUse, amounts: Mapping[str, int], request: LimitRequest, *, safe: bool
) -> Iterator[_Never]:
    """Yield the limits that the job would exceed even if no other job ran."""
    name = describe_association(association)
    for tres, count in amounts.items():
        gauge = association.tres.get(tres)
        if gauge is not None and gauge.limit is not None and count > gauge.limit:
            yield _make_too_many_problem(name, "at once", tres, count, gauge.limit)
        if count > association.per_job.get(tres, count):
            yield _make_too_many_problem(
                name, "for one job", tres, count, association.per_job[tres]
            )
    if association.max_wall_s is not None and request.time_limit_s > association.max_wall_s:
        yield _make_too_long_problem(name, request.time_limit_s, association.max_wall_s)
    for tres, gauge in association.tres_minutes.items() if safe else ():
        minutes = amounts.get(tres, 0) * request.time_limit_s // 60
        if gauge.limit is not None and minutes > gauge.limit:
            what = f"{_get_hours_name(tres)}-hours"
            yield (
                gauge.limit,
                FieldProblem(
                    "max_duration",
                    f"it may take {minutes / 60:g} {what}, and {name} may use {gauge.limit / 60:g} "
                    "in total",
                    f"{minutes / 60:g} {what}",
                    f"at most {gauge.limit / 60:g}",
                ),
            )
    for gauge in (association.grp_jobs, association.max_jobs):
        if gauge.limit == 0:
            yield 0, FieldProblem("project", f"{name} may run no jobs", association.account, None)
    new = len(parse_array(request.array).indices) if request.array else 1
    for gauge in (association.grp_submitted, association.max_submitted):
        if gauge.limit is not None and gauge.used + new > gauge.limit:
            remaining = max(0, gauge.limit - gauge.used)
            yield (
                remaining,
                FieldProblem(
                    "array" if request.array else "project",
                    f"{name} has {gauge.used} jobs waiting or running, and this adds {new}; at most "
                    f"{gauge.limit} are accepted at a time",
                    str(new),
                    f"at most {remaining} now",
                ),
            )


def _list_limits_exceeded_beside(
    association: AssociationUse, amounts: Mapping[str, int], held: Mapping[str, int]
) -> Iterator[_Never]:
    """Yield the limits that leave no room for the job while the job that holds ``held`` runs."""
    name = describe_association(association)
    for tres, count in amounts.items():
        gauge, own = association.tres.get(tres), held.get(tres, 0)
        if gauge is not None and gauge.limit is not None and own and count + own > gauge.limit:
            what = f"at once, of which the session holds {_format_amount(tres, own)}"
            yield _make_too_many_problem(
                name, what, tres, count, gauge.limit, max(0, gauge.limit - own)
            )
    for gauge in (association.grp_jobs, association.max_jobs):
        if gauge.limit == 1:
            text = f"{name} may run 1 job at once, which the session is"
            yield 0, FieldProblem("project", text, association.account, None)


def _make_too_long_problem(name: str, asked_s: int, most_s: int) -> _Never:
    return most_s, FieldProblem(
        "max_duration",
        f"it is longer than {name} may use",
        format_duration(asked_s),
        f"at most {format_duration(most_s)}",
    )


def _list_wait_reasons(
    association: AssociationUse,
    amounts: Mapping[str, int],
    request: LimitRequest,
    limit_usage: LimitUsage,
    *,
    safe: bool,
) -> Iterator[str]:
    for tres, count in amounts.items():
        gauge = association.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            text = summarize_use(association, tres, limit_usage)
            yield f"Waits for the limit of {text}."
    for gauge in (association.grp_jobs, association.max_jobs):
        if gauge.limit is not None and gauge.used >= gauge.limit > 0:
            yield f"Waits for the limit of {describe_association(association)}: {format_job_count(gauge)}."
    for tres, gauge in association.tres_minutes.items():
        if gauge.limit is None or not amounts.get(tres):
            continue
        needed = amounts[tres] * request.time_limit_s // 60 if safe else 1
        if gauge.used + needed > gauge.limit:
            yield f"Waits for the budget of {describe_association(association)}: {format_hours(tres, gauge)}."


def format_job_count(gauge: Gauge) -> str:
    """Return the number of running jobs and their limit, as part of a sentence."""
    return f"{gauge.used} of {gauge.limit} jobs run"


def format_hours(tres: str, gauge: Gauge) -> str:
    """Return the used hours of a resource and their limit, as part of a sentence."""
    limit = 0 if gauge.limit is None else gauge.limit // 60
    return f"{gauge.used // 60} of {limit} {_get_hours_name(tres)}-hours are used up"


def _get_hours_name(tres: str) -> str:
    return "GPU" if tres == GPU_TRES else _get_resource_name(tres)


def _list_exceeded_qos_limits(
    qos: QosUse, amounts: Mapping[str, int], request: LimitRequest
) -> Iterator[_Never]:
    name = f"a job of QOS {qos.name}"
    for tres, count in amounts.items():
        gauge = qos.tres.get(tres)
        if gauge is not None and gauge.limit is not None and count > gauge.limit:
            yield _make_too_many_problem(f"QOS {qos.name}", "at once", tres, count, gauge.limit)
        if count > qos.per_job.get(tres, count):
            yield _make_too_many_problem(name, "for itself", tres, count, qos.per_job[tres])
        if count > qos.per_user.get(tres, count):
            who = f"each user of QOS {qos.name}"
            yield _make_too_many_problem(who, "at once", tres, count, qos.per_user[tres])
    if qos.max_wall_s is not None and request.time_limit_s > qos.max_wall_s:
        yield _make_too_long_problem(name, request.time_limit_s, qos.max_wall_s)


def _list_qos_wait_reasons(qos: QosUse, amounts: Mapping[str, int], user: str) -> Iterator[str]:
    for tres, count in amounts.items():
        gauge = qos.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            users = {who: used[tres] for who, used in qos.used_by.items() if tres in used}
            by = _format_users(users, tres)
            yield f"Waits for the limit of QOS {qos.name}: {_format_use(tres, gauge.used, gauge.limit)} in use{by}."
        maximum, used = qos.per_user.get(tres), qos.used_by.get(user, {}).get(tres, 0)
        if maximum is not None and used + count > maximum:
            text = _format_use(tres, used, maximum)
            yield f"Waits for the limit of {user} in QOS {qos.name}: {text} in use."


def _get_use_by_user(
    association: AssociationUse, tres: str, limit_usage: LimitUsage
) -> dict[str, int]:
    """Return the use of the resource by each user of an account and of its child accounts."""
    parents = {a.account: a.parent for a in limit_usage.associations if a.user is None}
    usage: dict[str, int] = {}
    for one in limit_usage.associations:
        gauge = one.tres.get(tres)
        if one.user is None or gauge is None or not gauge.used:
            continue
        above: str | None = one.account
        while above is not None and above != association.account:
            above = parents.get(above)
        if above is not None:
            usage[one.user] = usage.get(one.user, 0) + gauge.used
    return usage


def _format_users(users: Mapping[str, int], tres: str) -> str:
    ranking = sorted(users.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {_format_amount(tres, used)}" for name, used in ranking[:_MOST_NAMES]]
    if len(ranking) > _MOST_NAMES:
        shown.append(f"{len(ranking) - _MOST_NAMES} others")
    return f" by {', '.join(shown)}" if shown else ""
