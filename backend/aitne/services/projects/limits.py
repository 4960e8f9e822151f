"""Check of a new job against the limits of its project, with the scheduler's own numbers.

The controller keeps the last values in the store, so that no request waits for the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import FieldProblem
from aitne.core.models.job import JobSpec
from aitne.core.models.limits import MIB, AssociationUse, LimitUsage, QosUse
from aitne.core.ports.store import Store
from aitne.core.units import format_duration, format_memory, parse_array
from aitne.services.projects.balance import ProjectGate

GPU = "gres/gpu"
DEFAULT_QOS = "normal"
_KEPT_FOR = timedelta(seconds=3)
_MOST_NAMES = 5
_WORDS = {"cpu": "CPUs", "node": "nodes", GPU: "GPUs", "mem": "memory"}
_FIELDS = {"cpu": "resources.cpu", "node": "resources.nodes", "mem": "resources.memory"}


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """Result of comparing a job with the limits.

    ``problems``: limits under which the job could never run. ``waits_for``: the limit because of
    which it would have to wait; None if there is none.
    """

    problems: tuple[FieldProblem, ...] = ()
    waits_for: str | None = None


class LimitCheck:
    """Check of jobs against the limits of projects and of the scheduler, which are read from the
    store at most every few seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime], default_account: str) -> None:
        """Store the dependencies; ``default_account`` is the account of jobs without one."""
        self._store = store
        self._gate = ProjectGate(store)
        self._clock = clock
        self._own = default_account
        self._look: LimitUsage | None = None
        self._read_at: datetime | None = None

    async def check(self, spec: JobSpec, account: str | None) -> LimitVerdict:
        """Compare the job with the limits that the scheduler enforces, and with the state and
        budget of its project and of the project that is charged.

        ``account`` is the Unix account of the job.
        """
        now = self._clock()
        gpus = spec.resources.gpu.count > 0
        charged = spec.slurm.account or spec.project
        for name in dict.fromkeys((spec.project, charged)):
            refused = await self._gate.refusal(name, now, gpus=gpus)
            if refused is not None:
                field = "project" if name == spec.project else "slurm.account"
                return LimitVerdict((FieldProblem(field, refused, name),))
        if self._read_at is None or now - self._read_at > _KEPT_FOR:
            reading = await self._store.in_use()
            self._look, self._read_at = None if reading is None else reading[0], now
        if self._look is None:
            return LimitVerdict()
        return judge(spec, self._look, account or self._own)


def judge(spec: JobSpec, look: LimitUsage, user: str) -> LimitVerdict:
    """Compare the job of the user ``user`` with the scheduler's limits; ``look`` holds the limits
    and their use.

    Has no side effects.
    """
    project = spec.slurm.account or spec.project
    if look.enforced and look.of(project, user) is None:
        return LimitVerdict((_no_association(project, user, look),))
    if "limits" not in look.enforced and "safe" not in look.enforced:
        return LimitVerdict()
    request = _asked(spec)
    never: list[tuple[int, FieldProblem]] = []
    waits: list[str] = []
    for association in look.chain(project, user):
        # The limits of the account also apply to the user; they are reported as the account's.
        never[:0] = _never(association, request, spec)
        waits += _waits(association, request, look)
    for qos in look.qos:
        if qos.name == (spec.slurm.qos or DEFAULT_QOS):
            never += _never_in_qos(qos, request, spec)
            waits += _waits_in_qos(qos, request, user)
    tightest: dict[str, tuple[int, FieldProblem]] = {}
    for maximum, problem in never:
        current = tightest.get(problem.field)
        if current is None or maximum < current[0]:
            tightest[problem.field] = (maximum, problem)
    problems = tuple(problem for _, problem in tightest.values())
    return LimitVerdict(problems, waits[0] if waits and not problems else None)


def summary(association: AssociationUse, tres: str, look: LimitUsage) -> str | None:
    """Return a sentence on how much of the limit of the resource ``tres`` is in use and by whom,
    such as ``project vision: 6 of 8 GPUs in use by alice 4, bob 2``; None if there is no limit.
    """
    gauge = association.tres.get(tres)
    if gauge is None or gauge.limit is None:
        return None
    by = "" if association.user is not None else _by(_users(association, tres, look), tres)
    return f"{_name(association)}: {_of(tres, gauge.used, gauge.limit)} in use{by}"


def _no_association(project: str, user: str, look: LimitUsage) -> FieldProblem:
    accounts = sorted(
        association.account for association in look.associations if association.user == user
    )
    return FieldProblem(
        "slurm.account" if look.of(project) is None else "project",
        f"Slurm does not let {user} use the account {project}; an administrator can synchronize the "
        "two: `aitne admin sync`",
        project,
        ", ".join(accounts) or "none",
    )


def _asked(spec: JobSpec) -> dict[str, int]:
    """Return the resources of one task of the job under Slurm's names; memory in MiB."""
    wish = spec.resources
    amounts = {
        "node": wish.nodes,
        "cpu": wish.nodes * wish.cpu,
        "mem": wish.nodes * -(-wish.memory_bytes // MIB),
        GPU: wish.nodes * wish.gpu.count,
    }
    if wish.gpu.type is not None:
        amounts[f"{GPU}:{wish.gpu.type}"] = wish.nodes * wish.gpu.count
    for name, count in wish.gres.items():
        amounts[f"gres/{name}"] = wish.nodes * count
    return {name: count for name, count in amounts.items() if count}


def _field(tres: str) -> str:
    if tres.startswith(GPU):
        return "resources.gpu"
    return _FIELDS.get(tres, "resources.gres")


def _amount(tres: str, count: int) -> str:
    if tres == "mem":
        return format_memory(count * MIB)
    return str(count)


def _things(tres: str) -> str:
    if tres.startswith(f"{GPU}:"):
        return f"{tres.removeprefix(f'{GPU}:')} GPUs"
    return _WORDS.get(tres, tres.removeprefix("gres/"))


def _of(tres: str, used: int, maximum: int) -> str:
    return f"{_amount(tres, used)} of {_amount(tres, maximum)} {_things(tres)}"


def _name(association: AssociationUse) -> str:
    if association.user is None:
        return f"project {association.account}"
    return f"{association.user} in project {association.account}"


_Never = tuple[int, FieldProblem]
"""Permitted maximum, and the problem if it is exceeded."""


def _too_many(name: str, what: str, tres: str, count: int, maximum: int) -> _Never:
    return maximum, FieldProblem(
        _field(tres),
        f"it asks for {_amount(tres, count)} {_things(tres)}, and {name} may use "
        f"{_amount(tres, maximum)} {what}",
        _amount(tres, count),
        f"at most {_amount(tres, maximum)}",
    )


def _never(
    association: AssociationUse, request: Mapping[str, int], spec: JobSpec
) -> Iterator[_Never]:
    """Yield the problems that remain even if nothing else runs."""
    for tres, count in request.items():
        gauge = association.tres.get(tres)
        if gauge is not None and gauge.limit is not None and count > gauge.limit:
            yield _too_many(_name(association), "at once", tres, count, gauge.limit)
        if count > association.per_job.get(tres, count):
            yield _too_many(
                _name(association), "for one job", tres, count, association.per_job[tres]
            )
    if association.max_wall_s is not None and spec.max_duration_s > association.max_wall_s:
        yield _too_long(_name(association), spec.max_duration_s, association.max_wall_s)
    for gauge in (association.grp_jobs, association.max_jobs):
        if gauge.limit == 0:
            none = f"{_name(association)} may run no jobs"
            yield 0, FieldProblem("project", none, association.account, None)
    new = len(parse_array(spec.array).indices) if spec.array else 1
    for gauge in (association.grp_submitted, association.max_submitted):
        if gauge.limit is not None and gauge.used + new > gauge.limit:
            remaining = max(0, gauge.limit - gauge.used)
            yield (
                remaining,
                FieldProblem(
                    "array" if spec.array else "project",
                    f"{_name(association)} has {gauge.used} jobs waiting or running, and this adds {new}; Slurm "
                    f"accepts at most {gauge.limit} at a time",
                    str(new),
                    f"at most {remaining} now",
                ),
            )


def _too_long(name: str, asked_s: int, most_s: int) -> _Never:
    return most_s, FieldProblem(
        "max_duration",
        f"it is longer than {name} may use",
        format_duration(asked_s),
        f"at most {format_duration(most_s)}",
    )


def _waits(
    association: AssociationUse, request: Mapping[str, int], look: LimitUsage
) -> Iterator[str]:
    for tres, count in request.items():
        gauge = association.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            text = summary(association, tres, look)
            yield f"Waits for the limit of {text}."
    for gauge in (association.grp_jobs, association.max_jobs):
        if gauge.limit is not None and gauge.used >= gauge.limit > 0:
            yield f"Waits for the limit of {_name(association)}: {gauge.used} of {gauge.limit} jobs run."
    for tres, gauge in association.tres_minutes.items():
        if gauge.limit is not None and request.get(tres) and gauge.used >= gauge.limit:
            what = "GPU" if tres == GPU else _things(tres)
            yield (
                f"Waits for the budget of {_name(association)}: {gauge.used // 60} of "
                f"{gauge.limit // 60} {what}-hours are used up."
            )


def _never_in_qos(qos: QosUse, request: Mapping[str, int], spec: JobSpec) -> Iterator[_Never]:
    name = f"a job of QOS {qos.name}"
    for tres, count in request.items():
        gauge = qos.tres.get(tres)
        if gauge is not None and gauge.limit is not None and count > gauge.limit:
            yield _too_many(f"QOS {qos.name}", "at once", tres, count, gauge.limit)
        if count > qos.per_job.get(tres, count):
            yield _too_many(name, "for itself", tres, count, qos.per_job[tres])
        if count > qos.per_user.get(tres, count):
            who = f"each user of QOS {qos.name}"
            yield _too_many(who, "at once", tres, count, qos.per_user[tres])
    if qos.max_wall_s is not None and spec.max_duration_s > qos.max_wall_s:
        yield _too_long(name, spec.max_duration_s, qos.max_wall_s)


def _waits_in_qos(qos: QosUse, request: Mapping[str, int], user: str) -> Iterator[str]:
    for tres, count in request.items():
        gauge = qos.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            users = {who: used[tres] for who, used in qos.used_by.items() if tres in used}
            by = _by(users, tres)
            yield f"Waits for the limit of QOS {qos.name}: {_of(tres, gauge.used, gauge.limit)} in use{by}."
        maximum, used = qos.per_user.get(tres), qos.used_by.get(user, {}).get(tres, 0)
        if maximum is not None and used + count > maximum:
            text = _of(tres, used, maximum)
            yield f"Waits for the limit of {user} in QOS {qos.name}: {text} in use."


def _users(association: AssociationUse, tres: str, look: LimitUsage) -> dict[str, int]:
    """Return the usage of each user of an account and of the accounts below it."""
    parents = {a.account: a.parent for a in look.associations if a.user is None}
    usage: dict[str, int] = {}
    for one in look.associations:
        gauge = one.tres.get(tres)
        if one.user is None or gauge is None or not gauge.used:
            continue
        above: str | None = one.account
        while above is not None and above != association.account:
            above = parents.get(above)
        if above is not None:
            usage[one.user] = usage.get(one.user, 0) + gauge.used
    return usage


def _by(users: Mapping[str, int], tres: str) -> str:
    ranking = sorted(users.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {_amount(tres, used)}" for name, used in ranking[:_MOST_NAMES]]
    if len(ranking) > _MOST_NAMES:
        shown.append(f"{len(ranking) - _MOST_NAMES} others")
    return f" by {', '.join(shown)}" if shown else ""
