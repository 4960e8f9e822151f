"""Check of a new job against the limits of its project, with the scheduler's own numbers.

The controller keeps the last values in the store, so that no request waits for the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import FieldProblem
from aitne.core.models.job import JobSpec
from aitne.core.models.limits import MIB, AssociationUse, InUse, QosUse
from aitne.core.ports.store import Store
from aitne.core.units import format_duration, format_memory, parse_array
from aitne.services.balance import ProjectGate

GPU = "gres/gpu"
DEFAULT_QOS = "normal"
_KEPT_FOR = timedelta(seconds=3)
_MOST_NAMES = 5
_WORDS = {"cpu": "CPUs", "node": "nodes", GPU: "GPUs", "mem": "memory"}
_FIELDS = {"cpu": "resources.cpu", "node": "resources.nodes", "mem": "resources.memory"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of the limits on a job.

    ``problems``: it could never run. ``waits_for``: the limit that it would wait for.
    """

    problems: tuple[FieldProblem, ...] = ()
    waits_for: str | None = None


class LimitCheck:
    """Check of jobs against limits that are read from the store at most every few seconds."""

    def __init__(self, store: Store, clock: Callable[[], datetime], own: str) -> None:
        """Store the dependencies; ``own`` is the account of jobs that name none."""
        self._store = store
        self._gate = ProjectGate(store)
        self._clock = clock
        self._own = own
        self._look: InUse | None = None
        self._read_at: datetime | None = None

    async def check(self, spec: JobSpec, account: str | None) -> Verdict:
        """Check the job of the Unix account against limits and budgets.

        These are the state and the budget of its project and of the charged project, and the limits
        that the scheduler enforces.
        """
        now = self._clock()
        gpus = spec.resources.gpu.count > 0
        charged = spec.slurm.account or spec.project
        for name in dict.fromkeys((spec.project, charged)):
            refused = await self._gate.refusal(name, now, gpus=gpus)
            if refused is not None:
                field = "project" if name == spec.project else "slurm.account"
                return Verdict((FieldProblem(field, refused, name),))
        if self._read_at is None or now - self._read_at > _KEPT_FOR:
            found = await self._store.in_use()
            self._look, self._read_at = None if found is None else found[0], now
        if self._look is None:
            return Verdict()
        return judge(spec, self._look, account or self._own)


def judge(spec: JobSpec, look: InUse, user: str) -> Verdict:
    """Return the verdict of the scheduler's limits on the job if ``user`` submits it.

    Has no side effects.
    """
    project = spec.slurm.account or spec.project
    if look.enforced and look.of(project, user) is None:
        return Verdict((_no_association(project, user, look),))
    if "limits" not in look.enforced and "safe" not in look.enforced:
        return Verdict()
    asked = _asked(spec)
    never: list[tuple[int, FieldProblem]] = []
    waits: list[str] = []
    for each in look.chain(project, user):
        # A user has the limits of the account too, and those are told as the account's.
        never[:0] = _never(each, asked, spec)
        waits += _waits(each, asked, look)
    for qos in look.qos:
        if qos.name == (spec.slurm.qos or DEFAULT_QOS):
            never += _never_in_qos(qos, asked, spec)
            waits += _waits_in_qos(qos, asked, user)
    tightest: dict[str, tuple[int, FieldProblem]] = {}
    for most, problem in never:
        known = tightest.get(problem.field)
        if known is None or most < known[0]:
            tightest[problem.field] = (most, problem)
    problems = tuple(problem for _, problem in tightest.values())
    return Verdict(problems, waits[0] if waits and not problems else None)


def summary(each: AssociationUse, tres: str, look: InUse) -> str | None:
    """Return a summary of the use of a limit; None if there is no limit.

    Such as ``project vision: 6 of 8 GPUs in use by alice 4, bob 2``.
    """
    gauge = each.tres.get(tres)
    if gauge is None or gauge.limit is None:
        return None
    by = "" if each.user is not None else _by(_users(each, tres, look), tres)
    return f"{_name(each)}: {_of(tres, gauge.used, gauge.limit)} in use{by}"


def _no_association(project: str, user: str, look: InUse) -> FieldProblem:
    mine = sorted(each.account for each in look.associations if each.user == user)
    return FieldProblem(
        "slurm.account" if look.of(project) is None else "project",
        f"Slurm does not let {user} work in the account {project}; an administrator can bring the two "
        "in line: `aitne admin sync`",
        project,
        ", ".join(mine) or "none",
    )


def _asked(spec: JobSpec) -> dict[str, int]:
    """Return the resources of one task of the job under Slurm's names; memory in MiB."""
    wish = spec.resources
    found = {
        "node": wish.nodes,
        "cpu": wish.nodes * wish.cpu,
        "mem": wish.nodes * -(-wish.memory_bytes // MIB),
        GPU: wish.nodes * wish.gpu.count,
    }
    if wish.gpu.type is not None:
        found[f"{GPU}:{wish.gpu.type}"] = wish.nodes * wish.gpu.count
    for name, count in wish.gres.items():
        found[f"gres/{name}"] = wish.nodes * count
    return {name: count for name, count in found.items() if count}


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


def _of(tres: str, used: int, most: int) -> str:
    return f"{_amount(tres, used)} of {_amount(tres, most)} {_things(tres)}"


def _name(each: AssociationUse) -> str:
    if each.user is None:
        return f"project {each.account}"
    return f"{each.user} in project {each.account}"


_Never = tuple[int, FieldProblem]
"""Permitted maximum, and the problem if it is exceeded."""


def _too_many(name: str, what: str, tres: str, asked: int, most: int) -> _Never:
    return most, FieldProblem(
        _field(tres),
        f"it asks for {_amount(tres, asked)} {_things(tres)}, and {name} may use "
        f"{_amount(tres, most)} {what}",
        _amount(tres, asked),
        f"at most {_amount(tres, most)}",
    )


def _never(each: AssociationUse, asked: Mapping[str, int], spec: JobSpec) -> Iterator[_Never]:
    """Yield the problems that remain even if nothing else runs."""
    for tres, count in asked.items():
        gauge = each.tres.get(tres)
        if gauge is not None and gauge.limit is not None and count > gauge.limit:
            yield _too_many(_name(each), "at once", tres, count, gauge.limit)
        if count > each.per_job.get(tres, count):
            yield _too_many(_name(each), "for one job", tres, count, each.per_job[tres])
    if each.max_wall_s is not None and spec.max_duration_s > each.max_wall_s:
        yield _too_long(_name(each), spec.max_duration_s, each.max_wall_s)
    for gauge in (each.grp_jobs, each.max_jobs):
        if gauge.limit == 0:
            none = f"{_name(each)} may run no jobs"
            yield 0, FieldProblem("project", none, each.account, None)
    new = len(parse_array(spec.array).indices) if spec.array else 1
    for gauge in (each.grp_submitted, each.max_submitted):
        if gauge.limit is not None and gauge.used + new > gauge.limit:
            left = max(0, gauge.limit - gauge.used)
            yield (
                left,
                FieldProblem(
                    "array" if spec.array else "project",
                    f"{_name(each)} has {gauge.used} jobs waiting or running, and this adds {new}; Slurm "
                    f"takes no more than {gauge.limit} at a time",
                    str(new),
                    f"at most {left} now",
                ),
            )


def _too_long(name: str, asked_s: int, most_s: int) -> _Never:
    return most_s, FieldProblem(
        "max_duration",
        f"it is longer than {name} may use",
        format_duration(asked_s),
        f"at most {format_duration(most_s)}",
    )


def _waits(each: AssociationUse, asked: Mapping[str, int], look: InUse) -> Iterator[str]:
    for tres, count in asked.items():
        gauge = each.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            said = summary(each, tres, look)
            yield f"Waits for the limit of {said}."
    for gauge in (each.grp_jobs, each.max_jobs):
        if gauge.limit is not None and gauge.used >= gauge.limit > 0:
            yield f"Waits for the limit of {_name(each)}: {gauge.used} of {gauge.limit} jobs run."
    for tres, gauge in each.tres_minutes.items():
        if gauge.limit is not None and asked.get(tres) and gauge.used >= gauge.limit:
            what = "GPU" if tres == GPU else _things(tres)
            yield (
                f"Waits for the budget of {_name(each)}: {gauge.used // 60} of "
                f"{gauge.limit // 60} {what}-hours are used up."
            )


def _never_in_qos(qos: QosUse, asked: Mapping[str, int], spec: JobSpec) -> Iterator[_Never]:
    name = f"a job of QOS {qos.name}"
    for tres, count in asked.items():
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


def _waits_in_qos(qos: QosUse, asked: Mapping[str, int], user: str) -> Iterator[str]:
    for tres, count in asked.items():
        gauge = qos.tres.get(tres)
        if gauge is not None and gauge.limit is not None and gauge.used + count > gauge.limit:
            users = {who: used[tres] for who, used in qos.used_by.items() if tres in used}
            by = _by(users, tres)
            yield f"Waits for the limit of QOS {qos.name}: {_of(tres, gauge.used, gauge.limit)} in use{by}."
        most, used = qos.per_user.get(tres), qos.used_by.get(user, {}).get(tres, 0)
        if most is not None and used + count > most:
            said = _of(tres, used, most)
            yield f"Waits for the limit of {user} in QOS {qos.name}: {said} in use."


def _users(each: AssociationUse, tres: str, look: InUse) -> dict[str, int]:
    """Return the usage of each user of an account and of the accounts below it."""
    parents = {a.account: a.parent for a in look.associations if a.user is None}
    found: dict[str, int] = {}
    for one in look.associations:
        gauge = one.tres.get(tres)
        if one.user is None or gauge is None or not gauge.used:
            continue
        above: str | None = one.account
        while above is not None and above != each.account:
            above = parents.get(above)
        if above is not None:
            found[one.user] = found.get(one.user, 0) + gauge.used
    return found


def _by(users: Mapping[str, int], tres: str) -> str:
    most = sorted(users.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} {_amount(tres, used)}" for name, used in most[:_MOST_NAMES]]
    if len(most) > _MOST_NAMES:
        shown.append(f"{len(most) - _MOST_NAMES} others")
    return f" by {', '.join(shown)}" if shown else ""
