"""Cluster as users see it, and the operations of administrators on its nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from aitne.core.errors import InvalidInput, NotFound, NotSupported
from aitne.core.models.announcement import NodeEvent
from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.cluster import Cluster, Node, NodeState, Partition, SchedulerStatus
from aitne.core.models.cluster_load_history import LoadPeriod
from aitne.core.models.user import Actor
from aitne.core.ports.scheduler import Scheduler
from aitne.core.settings import Settings
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.cluster.load_history import (
    INTERVALS,
    LOAD_FRESH_S,
    LoadHistory,
    make_load_history,
)
from aitne.services.cluster.partition_queues import (
    QUEUES_FRESH_S,
    WAIT_BOUNDS_S,
    WAITS_FRESH_S,
    QueueReport,
    queue_report,
)
from aitne.services.platform.ttl_cache import TtlCache
from aitne.store import Store
from aitne.store.cluster_load import WaitSums
from aitne.store.paging import Page
from aitne_train.topology.hostlist import compress_hostlist

_STALE_POLLS = 5
_STALE_AT_LEAST_S = 15.0
FRESH_S = 0.5
"""Seconds for which one read of the database is reused for all requests, because many pages may be
open at once.
"""


class ClusterSnapshot(Frozen):
    """The cluster and its scheduler as last stored, at the time ``as_of``; ``stale`` is True if
    that is too long ago to rely on.
    """

    cluster: Cluster
    scheduler: SchedulerStatus | None
    as_of: UtcTime | None
    stale: bool


class GpuSum(Frozen):
    """Number of GPUs of one type on all nodes of a partition. ``free`` counts those that could be
    allocated to a job now.
    """

    type: str | None
    """GPU type; None means GPUs without a type."""
    total: int
    """Number of GPUs of this type."""
    used: int
    free: int


class PartitionSummary(Frozen):
    """A partition with the sums of its nodes' resources and the number of nodes in each state."""

    name: str
    up: bool
    """Whether jobs can start in the partition."""
    accepts_jobs: bool
    """Whether the partition takes new jobs; in one that is not up they wait."""
    default: bool
    """Whether jobs that name no partition are submitted to this one."""
    nodes: str
    """Node list in Slurm's notation: ``gpu[01-04]``."""
    node_count: int
    """Number of nodes of the partition."""
    states: dict[NodeState, int]
    """Number of nodes in each state."""
    cpu_total: int
    """Number of CPUs of its nodes."""
    cpu_used: int
    """Number of CPUs that are allocated to jobs."""
    gpus: tuple[GpuSum, ...]
    features: tuple[str, ...]
    """Features that jobs can name as constraints."""
    max_time_s: int | None
    """Maximum time limit of a job in seconds; None means no limit."""
    default_time_s: int | None
    """Time limit in seconds of a job that requests none; None if the partition has no default."""
    max_nodes: int | None
    """Maximum number of nodes of a job; None means no limit."""
    allow_accounts: tuple[str, ...] | None
    """Accounts that may use the partition; None means all."""
    allow_qos: tuple[str, ...] | None
    """QOS that jobs may name; None means all."""


class ClusterService:
    """Service that reads the state of the cluster from the store, and drains and resumes nodes in
    the scheduler.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler | None,
        settings: Settings,
        clock: Callable[[], datetime],
        *,
        fresh_s: float = FRESH_S,
        cpu_power_w: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """Create the service. ``cpu_power_w`` returns the power of the CPUs and memory of nodes, by
        name, as agents report it.
        """
        self._store = store
        self._cpu_power_w = cpu_power_w
        self._scheduler = scheduler
        self._settings = settings
        self._clock = clock
        self._seen = TtlCache(self._read_snapshot, fresh_s)
        self._loads: dict[tuple[LoadPeriod, str | None], TtlCache[LoadHistory]] = {}
        self._queued = TtlCache(store.count_queued_jobs, QUEUES_FRESH_S)
        self._waits = {
            period: TtlCache(partial(self._read_waits, period), fresh_s)
            for period, fresh_s in WAITS_FRESH_S.items()
        }

    async def get_snapshot(self) -> ClusterSnapshot:
        """Return the nodes, partitions and state of the scheduler as the controller last stored
        them.
        """
        return await self._seen.get()

    async def _read_snapshot(self) -> ClusterSnapshot:
        cluster = await self._store.get_cluster()
        if power_w := self._cpu_power_w():
            nodes = (
                node.model_copy(update={"cpu_power_w": round(power_w[node.name])})
                if node.name in power_w
                else node
                for node in cluster.nodes
            )
            cluster = cluster.model_copy(update={"nodes": tuple(nodes)})
        as_of = cluster.seen_at or max((node.seen_at for node in cluster.nodes), default=None)
        patience_s = max(_STALE_AT_LEAST_S, _STALE_POLLS * self._settings.poll_interval_s)
        status = await self._store.find_scheduler_status()
        silent = status is not None and not status.responding
        old = as_of is None or self._clock() - as_of > timedelta(seconds=patience_s)
        return ClusterSnapshot(cluster=cluster, scheduler=status, as_of=as_of, stale=silent or old)

    async def get_load(self, period: LoadPeriod, partition: str | None = None) -> LoadHistory:
        """Return the load of the partition, or of the cluster if it is None, over the last day,
        week or month; intervals in which the scheduler did not answer are absent.

        Raises ``NotFound`` if there is no such partition.
        """
        if partition is not None:
            cluster = (await self.get_snapshot()).cluster
            # Only partitions that exist have a cache, so their number is bounded.
            if all(part.name != partition for part in cluster.partitions):
                raise NotFound("partition", partition)
        key = (period, partition)
        if key not in self._loads:
            self._loads[key] = TtlCache(partial(self._read_load, *key), LOAD_FRESH_S)
        return await self._loads[key].get()

    async def _read_load(self, period: LoadPeriod, partition: str | None) -> LoadHistory:
        length, step = INTERVALS[period]
        sums = await self._store.list_load_since(self._clock() - length, partition)
        return make_load_history(sums, step)

    async def queues(self, period: LoadPeriod) -> QueueReport:
        """Return the queue of each partition, with the wait times of the jobs that started in the
        last day, week or month.
        """
        since, waits = await self._waits[period].get()
        return queue_report(await self._queued.get(), waits, since, self._clock())

    async def _read_waits(self, period: LoadPeriod) -> tuple[datetime, Sequence[WaitSums]]:
        since = self._clock() - INTERVALS[period][0]
        return since, await self._store.sum_waits_since(since, WAIT_BOUNDS_S)

    async def drain(self, actor: Actor, name: str, reason: str) -> Node:
        """Drain the node: it starts no new jobs, and running jobs continue.

        Raises:
            NotFound: there is no such node.
            NotAllowed: the actor is not an administrator.
            InvalidInput: there is no reason.
            NotSupported: the scheduler cannot drain nodes.
            SchedulerRejected, SchedulerUnavailable: the scheduler refuses or does not answer.
        """
        scheduler, node = await self._get_scheduler_and_node(actor, name)
        reason_text = " ".join(reason.split())
        if not reason_text:
            raise InvalidInput.field("reason", "a reason is required", value=reason)
        await scheduler.drain(name, f"{reason_text} ({actor.name})")
        await self._store.record_node_action(name, "drain", actor=actor.name, reason=reason_text)
        await self._add_event("node.drained", actor, name, reason_text)
        return node

    async def resume(self, actor: Actor, name: str) -> Node:
        """Return a drained node to service, so that it starts new jobs again.

        Raises the same errors as ``drain``.
        """
        scheduler, node = await self._get_scheduler_and_node(actor, name)
        await scheduler.resume(name)
        await self._store.record_node_action(name, "resume", actor=actor.name, reason=None)
        await self._add_event("node.resumed", actor, name, None)
        return node

    async def list_node_events(
        self, actor: Actor, name: str, *, cursor: str | None, limit: int
    ) -> Page[NodeEvent]:
        """Return a page of the node's history, newest first: its states, and which administrators
        drained and resumed it.

        Raises:
            NotFound: there is no such node, and no history of one with this name.
        """
        require_permission(PolicyAction.CLUSTER_READ, actor, "node", name)
        page = await self._store.list_node_events(name, cursor=cursor, limit=limit)
        if not page.total and all(node.name != name for node in await self._store.list_nodes()):
            raise NotFound("node", name)
        return page

    async def drains(self, actor: Actor) -> dict[str, NodeEvent]:
        """Return, by node name, the last event in which an administrator drained the node through
        the platform.

        Raises ``NotAllowed`` if the actor is not an administrator.
        """
        require_permission(PolicyAction.NODE_ADMINISTER, actor, "node", "any")
        return await self._store.list_last_drains()

    async def _get_scheduler_and_node(self, actor: Actor, name: str) -> tuple[Scheduler, Node]:
        require_permission(PolicyAction.NODE_ADMINISTER, actor, "node", name)
        node = next(
            (candidate for candidate in await self._store.list_nodes() if candidate.name == name),
            None,
        )
        if node is None:
            raise NotFound("node", name)
        if self._scheduler is None or not self._scheduler.capabilities.drains:
            raise NotSupported(
                f"The scheduler {self._settings.scheduler} cannot drain or resume nodes; Slurm can."
            )
        return self._scheduler, node

    async def _add_event(self, kind: str, actor: Actor, name: str, reason: str | None) -> None:
        await self._store.add_event(kind, {"node": name, "by": actor.name, "reason": reason})


def summarize_partitions(cluster: Cluster) -> list[PartitionSummary]:
    """Return the partitions with sums over their nodes: the default partition first, the others by
    name.
    """
    nodes = {node.name: node for node in cluster.nodes}
    members: dict[str, list[Node]] = {part.name: [] for part in cluster.partitions}
    for node in cluster.nodes:
        for name in node.partitions:
            if name in members:
                members[name].append(node)
    for part in cluster.partitions:
        if not members[part.name]:
            members[part.name] = [nodes[name] for name in part.nodes if name in nodes]
    summaries = [_summarize_partition(part, members[part.name]) for part in cluster.partitions]
    return sorted(summaries, key=lambda part: (not part.default, part.name))


def _summarize_partition(part: Partition, nodes: Sequence[Node]) -> PartitionSummary:
    return PartitionSummary(
        name=part.name,
        up=part.up,
        accepts_jobs=part.accepts_jobs,
        default=part.default,
        nodes=compress_hostlist([node.name for node in nodes]),
        node_count=len(nodes),
        states=dict(Counter(node.state for node in nodes)),
        cpu_total=sum(node.cpu_total for node in nodes),
        cpu_used=sum(node.cpu_used for node in nodes),
        gpus=_sum_gpus(nodes),
        features=tuple(sorted({feature for node in nodes for feature in node.features})),
        max_time_s=part.max_time_s,
        default_time_s=part.default_time_s,
        max_nodes=part.max_nodes,
        allow_accounts=part.allow_accounts,
        allow_qos=part.allow_qos,
    )


def _sum_gpus(nodes: Sequence[Node]) -> tuple[GpuSum, ...]:
    total: Counter[str | None] = Counter()
    used: Counter[str | None] = Counter()
    free: Counter[str | None] = Counter()
    for node in nodes:
        for gpu in node.gpus:
            total[gpu.type] += gpu.total
            used[gpu.type] += gpu.used
            free[gpu.type] += max(0, gpu.total - gpu.used) if node.state.is_usable else 0
    return tuple(
        GpuSum(type=kind, total=total[kind], used=used[kind], free=free[kind])
        for kind in sorted(total, key=lambda kind: kind or "")
    )
