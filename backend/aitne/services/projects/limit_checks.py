"""Check of new jobs against the limits of their projects, using the usage that the scheduler
reported.

The controller stores the last values, so that no request waits for the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import FieldProblem, InvalidInput
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.job import JobSpec
from aitne.core.models.limits import Limits, LimitsApplied, LimitUsage
from aitne.core.ports.scheduler import SchedulerCapabilities
from aitne.core.projects.limit_check import (
    DEFAULT_QOS,
    LimitRequest,
    LimitVerdict,
    compare_with_limits,
)
from aitne.services.projects.project_balance import ProjectGate
from aitne.store import Store

_KEPT_FOR = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class LimitSupport:
    """Kinds of project limits that the scheduler can enforce, and when changed limits take
    effect.
    """

    scheduler: SchedulerCapabilities
    applied: LimitsApplied

    def check(self, limits: Limits | None, prefix: str = "") -> None:
        """Check that the scheduler can enforce the limits.

        Args:
            limits: None: there are no limits to check.
            prefix: text before the names of the fields in the error.

        Raises:
            InvalidInput: the scheduler cannot enforce one of them.
        """
        if limits is None or limits.is_empty:
            return
        title = self.scheduler.title
        if self.applied is LimitsApplied.NEVER:
            raise InvalidInput.field(f"{prefix}limits", f"{title} holds no limits of projects")
        if limits.qos and not self.scheduler.slurm_options:
            raise InvalidInput.field(f"{prefix}qos", f"{title} has no QOS", allowed="none")


class LimitCheck:
    """Check of jobs against the limits of projects and of the scheduler, which are read from the
    store at most every few seconds.
    """

    def __init__(
        self, store: Store, clock: Callable[[], datetime], default_account: str | None
    ) -> None:
        """Store the dependencies.

        ``default_account`` is the account of jobs without one; None if the scheduler counts the
        jobs by user of the platform, not by Unix account.
        """
        self._store = store
        self._gate = ProjectGate(store)
        self._clock = clock
        self._own = default_account
        self._look: LimitUsage | None = None
        self._read_at: datetime | None = None

    async def check(
        self, spec: JobSpec, owner: str, account: str | None, beside: JobSpec | None = None
    ) -> LimitVerdict:
        """Compare the job with the limits that the scheduler enforces, and with the state and
        budget of its project and of the project that is charged.

        Args:
            spec: specification of the job.
            owner: its user.
            account: its Unix account.
            beside: specification of the same user's job during which it must run; None: none.
        """
        gpus = spec.resources.gpu.count > 0
        charged = spec.slurm.account or spec.project
        for name in dict.fromkeys((spec.project, charged)):
            refused = await self._gate.refusal(name, self._clock(), gpus=gpus)
            if refused is not None:
                field = "project" if name == spec.project else "slurm.account"
                return LimitVerdict((FieldProblem(field, refused, name),))
        look = await self._get_limit_usage()
        if look is None:
            return LimitVerdict()
        return check_job_limits(spec, look, account or self._own or owner, beside)

    async def longest_s(
        self, project: str, slurm: SlurmOptions, owner: str, account: str | None
    ) -> int | None:
        """Return the longest time limit in seconds that a job's project, user and QOS permit; None:
        any.

        Args:
            project: project of the job.
            slurm: its options of Slurm.
            owner: its user.
            account: its Unix account.
        """
        look = await self._get_limit_usage()
        if look is None or look.enforced.isdisjoint({"limits", "safe"}):
            return None
        chain = look.list_association_chain(slurm.account or project, account or self._own or owner)
        walls = [association.max_wall_s for association in chain]
        walls += [qos.max_wall_s for qos in look.qos if qos.name == (slurm.qos or DEFAULT_QOS)]
        return min((wall for wall in walls if wall is not None), default=None)

    async def _get_limit_usage(self) -> LimitUsage | None:
        now = self._clock()
        if self._read_at is None or now - self._read_at > _KEPT_FOR:
            reading = await self._store.find_limit_usage()
            self._look, self._read_at = None if reading is None else reading[0], now
        return self._look


def check_job_limits(
    spec: JobSpec, usage: LimitUsage, user: str, beside: JobSpec | None = None
) -> LimitVerdict:
    """Compare the resources of a job with the scheduler's limits. Returns the problems of a job
    that could never run, and the limit because of which it would be pending now. Has no side
    effects.

    Args:
        usage: limits and their current use.
        user: user to whom the job is charged.
        beside: specification of the same user's job during which it must run; None: none.
    """
    other = None if beside is None else _make_limit_request(beside, user)
    return compare_with_limits(_make_limit_request(spec, user), usage, other)


def _make_limit_request(spec: JobSpec, user: str) -> LimitRequest:
    return LimitRequest(
        project=spec.slurm.account or spec.project,
        user=user,
        resources=spec.resources,
        time_limit_s=spec.max_duration_s,
        array=spec.array,
        qos=spec.slurm.qos,
    )
