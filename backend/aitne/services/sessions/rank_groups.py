"""Ranks of sessions: rank groups are started for a session and released.

A rank group is an ordinary job, derived from its session, whose ranks execute cells of the session's
notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import Conflict, InvalidInput, NotFound
from aitne.core.jobs.states import LIVE, JobState
from aitne.core.models.base import OFF
from aitne.core.models.image import BARE
from aitne.core.models.job import Job, JobFilter, JobType, Plan, RankGroupSpec
from aitne.core.models.job_file import DistributedFile, JobFile, is_reserved
from aitne.core.models.resources import GpuRequest, ResourcesFile
from aitne.core.models.session_ranks_request import RanksFile
from aitne.core.models.user import Actor
from aitne.core.units import format_duration, format_memory
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.jobs.job_renderer import ENGINE
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.problems import Problems
from aitne.store import Store
from aitne.store.new_jobs import CreatedJob

RUNS = frozenset({JobState.STARTING, JobState.RUNNING, JobState.READY})
"""States of a session for which ranks can be started."""
DEFAULT_MEMORY = 2 << 30
MOST_PER_NODE = {"ranks": 256, "cpu": 4_096, "gpu": 1_024, "memory": 1 << 60}
MOST_GROUPS = 1_000
_FIELDS = {
    "distributed.ranks_per_node": "ranks_per_node",
    "resources.nodes": "nodes",
    "resources.cpu": "cpu",
    "resources.memory": "memory",
    "resources.gpu": "gpu",
}
"""Fields of ``RanksFile`` by the fields of the derived job file."""


class RankGroupService:
    """Service that starts, lists and releases the rank groups of sessions."""

    def __init__(self, jobs: JobService, store: Store, clock: Callable[[], datetime]) -> None:
        self._jobs = jobs
        self._store = store
        self._clock = clock

    async def plan(self, actor: Actor, session_id: UUID, ranks: RanksFile) -> Plan:
        """Return the plan of the rank group that ``start`` would submit, and whether it would start
        now. Nothing is stored.

        Raises the same errors as ``start``.
        """
        file, group = await self._make_group_request(actor, session_id, ranks)
        try:
            return await self._jobs.plan(actor, file, rank_group=group)
        except InvalidInput as error:
            raise _rename_fields(error) from error

    async def start(
        self,
        actor: Actor,
        session_id: UUID,
        ranks: RanksFile,
        *,
        idempotency_key: str | None = None,
    ) -> CreatedJob:
        """Store a rank group of the session for the controller to submit. On any error nothing is
        stored.

        Raises:
            NotFound: there is no such session that the actor may see.
            NotAllowed: the session belongs to another user.
            Conflict: the session does not run, or the user has as many live jobs as allowed.
            InvalidInput: a field is wrong, or the platform can no longer provide what the session
                uses.
        """
        file, group = await self._make_group_request(actor, session_id, ranks)
        try:
            return await self._jobs.create(
                actor, file, rank_group=group, idempotency_key=idempotency_key
            )
        except InvalidInput as error:
            raise _rename_fields(error) from error

    async def check_readable(self, actor: Actor, session_id: UUID) -> None:
        """Check that the actor may list the rank groups of the session.

        Raises ``NotFound`` if there is no such session that the actor may see, and ``NotAllowed``.
        """
        await self._get_permitted_session(PolicyAction.JOB_READ, actor, session_id)

    async def release(self, actor: Actor, session_id: UUID, group_id: UUID) -> Job:
        """Request the end of one rank group of the session and return it; a group that has ended is
        returned unchanged.

        Raises:
            NotFound: there is no such session that the actor may see, or it has no such group.
            NotAllowed: the session belongs to another user.
        """
        session = await self._get_permitted_session(PolicyAction.JOB_OPEN, actor, session_id)
        group = await self._store.get_job(group_id)
        if group.session_id != session.id:
            raise NotFound(
                "rank group", group_id, f"Session {session.name} has no rank group {group_id}."
            )
        return await self._request_release(actor, group)

    async def release_all(self, actor: Actor, session_id: UUID) -> list[Job]:
        """Request the end of all rank groups of the session that have not ended, and return them.

        Raises the same errors as ``release``.
        """
        session = await self._get_permitted_session(PolicyAction.JOB_OPEN, actor, session_id)
        live = JobFilter(session_id=session.id, states=LIVE)
        groups = await self._store.list_jobs(live, visible_to=None, limit=MOST_GROUPS)
        return [await self._request_release(actor, group) for group in groups.items]

    async def _request_release(self, actor: Actor, group: Job) -> Job:
        message = f"Released by {actor.name}."
        return await self._store.request_cancel(group.id, self._clock(), message)

    async def _make_group_request(
        self, actor: Actor, session_id: UUID, ranks: RanksFile
    ) -> tuple[JobFile, RankGroupSpec]:
        session = await self._get_permitted_session(PolicyAction.JOB_OPEN, actor, session_id)
        if session.state not in RUNS or session.cancel_requested_at is not None:
            raise Conflict(_explain_refusal(session))
        group = RankGroupSpec(
            session=session.id,
            idle_s=None if ranks.idle == OFF else int(ranks.idle),
            python=ranks.python,
        )
        return make_rank_group_file(session, ranks), group

    async def _get_permitted_session(
        self, action: PolicyAction, actor: Actor, session_id: UUID
    ) -> Job:
        job = await self._store.get_job(session_id)
        require_permission(
            action, actor, "session", session_id, owner=job.owner, project=job.project
        )
        if job.session_id is not None:
            raise NotFound(
                "session",
                session_id,
                f"Job {session_id} is a rank group of session {job.session_id}. Name that session.",
            )
        if job.type is not JobType.SESSION:
            raise NotFound("session", session_id)
        return job


def make_rank_group_file(session: Job, ranks: RanksFile) -> JobFile:
    """Return the job file of a rank group. It has the session's project, image or environment,
    datasets, variables, secrets and working folder.

    Raises:
        InvalidInput: the ranks cannot be distributed evenly over the nodes, or the ranks of one
            node request more than any node has.
    """
    problems = Problems()
    nodes, per_node = _compute_rank_layout(ranks, problems)
    problems.raise_if_any()
    per_rank = {
        "cpu": ranks.cpu or 1,
        "gpu": ranks.gpu.count if ranks.gpu else 0,
        "memory": ranks.memory or DEFAULT_MEMORY,
    }
    for field, amount in per_rank.items():
        if amount * per_node > (most := MOST_PER_NODE[field]):
            problems.add(
                field,
                f"{per_node} ranks on a node request {_format_amount(field, amount * per_node)} together",
                _format_amount(field, amount),
                f"at most {_format_amount(field, most)} for the ranks of a node",
            )
    problems.raise_if_any()
    spec = session.spec
    image = None if spec.image == BARE else spec.image
    runtime = None if image is None else spec.runtime
    account = ranks.slurm.account or spec.slurm.account
    return JobFile(
        type=JobType.JOB,
        name=f"Ranks of {session.name}"[:200],
        project=session.project,
        image=image,
        container=spec.container.model_copy(update={"runtime": runtime}),
        environment=spec.environment,
        datasets=[f"{dataset.name}:{dataset.version}" for dataset in spec.datasets],
        commands=[f"python -m {ENGINE}"],  # what ``Renderer`` starts, with the right interpreter
        distributed=DistributedFile(ranks_per_node=per_node),
        env={k: value for k, value in spec.env.items() if not is_reserved(k)},
        secrets=spec.secrets,
        workdir=spec.workdir,
        resources=ResourcesFile(
            nodes=nodes,
            cpu=per_rank["cpu"] * per_node,
            memory=format_memory(per_rank["memory"] * per_node),
            gpu=GpuRequest(
                count=per_rank["gpu"] * per_node, type=ranks.gpu.type if ranks.gpu else None
            ),
        ),
        max_duration=None if ranks.max_duration is None else format_duration(ranks.max_duration),
        slurm=ranks.slurm.model_copy(update={"account": account}),
    )


def _format_amount(field: str, amount: int) -> str:
    return describe_bytes(amount) if field == "memory" else str(amount)


def _compute_rank_layout(ranks: RanksFile, problems: Problems) -> tuple[int, int]:
    """Return the number of nodes, and the number of ranks on each node. Adds a problem if they do
    not match the total number of ranks.
    """
    count, per_node = ranks.ranks, ranks.ranks_per_node
    if ranks.nodes is None and per_node is not None:
        field, divisor, noun = "ranks_per_node", per_node, "ranks on each node"
    else:
        field, divisor, noun = "nodes", ranks.nodes or 1, "nodes"
    if count % divisor:
        numbers = ", ".join(str(number) for number in range(1, count + 1) if count % number == 0)
        problems.add(
            field,
            f"{count} ranks cannot be distributed evenly: {count} is not divisible by {divisor}",
            divisor,
            f"{numbers} {noun}, or another number of ranks",
        )
        return 1, 1
    nodes = divisor if field == "nodes" else count // divisor
    if per_node is not None and per_node != count // nodes:
        problems.add(
            "ranks_per_node",
            f"{count} ranks on {nodes} nodes are {count // nodes} on each, not {per_node}",
            per_node,
            f"{count // nodes}, or omit it",
        )
    if count // nodes > (most := MOST_PER_NODE["ranks"]):
        problems.add(
            "ranks",
            f"{count // nodes} ranks on one node are more than a node starts",
            count,
            f"at most {most} on each node; request more nodes",
        )
    return nodes, count // nodes


def _explain_refusal(session: Job) -> str:
    if session.state.is_terminal:
        return (
            f"Session {session.name} has ended: it is {session.state}, so no ranks can serve it. "
            "Start it again, and then its ranks."
        )
    if session.cancel_requested_at is not None:
        return f"Session {session.name} is being stopped, so no ranks can serve it."
    return (
        f"Session {session.name} is {session.state}, and ranks can be started only while it runs. "
        "Wait until it is READY."
    )


def _rename_fields(error: InvalidInput) -> InvalidInput:
    """Return a copy of an error about the derived job file that names the fields of ``RanksFile``
    instead.
    """
    problems = [
        replace(problem, field=_FIELDS.get(problem.field, problem.field))
        for problem in error.problems
    ]
    if not problems:
        return error
    return InvalidInput(
        "; ".join(f"{problem.field}: {problem.message}" for problem in problems), problems
    )
