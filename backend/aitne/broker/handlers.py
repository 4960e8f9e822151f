"""What each verb does: one method of its name. What comes in was parsed; here it is judged and done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel

from aitne.broker.config import BrokerConfig
from aitne.broker.guard import Guard
from aitne.broker.helpers import Helpers
from aitne.broker.polls import Generations, Shared
from aitne.core.broker_protocol import (
    VERBS,
    AccountingArgs,
    Args,
    CreateArgs,
    Done,
    DrainArgs,
    ExtendArgs,
    FenceRead,
    FindArgs,
    Forecasted,
    Found,
    LogRead,
    NoArgs,
    Notes,
    OutcomeRead,
    PlaceArgs,
    PollArgs,
    Polled,
    ReadLogArgs,
    ResumeArgs,
    RunArgs,
    SubmitArgs,
    Submitted,
    TaskArgs,
    UsageArgs,
    Used,
)
from aitne.core.errors import SchedulerRejected
from aitne.core.models.limits import InUse
from aitne.core.models.node import Cluster
from aitne.core.ports.accounting import Accounting, Associations
from aitne.core.ports.scheduler import Scheduler, SchedulerJob

_FRESH_S = 0.5
"""Who asks within this time of another's query shares its answer."""

A = TypeVar("A", bound=BaseModel)


class Handlers:
    """Judges with ``guard``, then hands over to the scheduler's adapter or to an account's helper."""

    def __init__(
        self,
        config: BrokerConfig,
        guard: Guard,
        scheduler: Scheduler,
        accounting: Accounting,
        helpers: Helpers,
    ) -> None:
        self._config = config
        self._guard = guard
        self._scheduler = scheduler
        self._accounting = accounting
        self._in_use: Shared[InUse] = Shared(accounting.in_use, _FRESH_S)
        self._helpers = helpers
        self._polled: Shared[Sequence[SchedulerJob]] = Shared(scheduler.poll, _FRESH_S)
        self._cluster: Shared[Cluster] = Shared(scheduler.cluster, _FRESH_S)
        self._generations = Generations()
        self.start_notes: Sequence[str] = ()

    async def handle(self, verb: str, args: Args) -> BaseModel:
        """The verb's answer; raises ``AitneError``."""
        answer: BaseModel = await getattr(self, verb)(args)
        return answer

    async def submit(self, args: SubmitArgs) -> Submitted:
        """As the account, after everything that the request says of it was checked."""
        await asyncio.to_thread(self._guard.request, args.request)
        with self._polled.changing():
            return Submitted(scheduler_id=await self._scheduler.submit(args.request))

    async def forecast(self, args: SubmitArgs) -> Forecasted:
        """As ``submit``, but nothing is queued."""
        await asyncio.to_thread(self._guard.request, args.request)
        return Forecasted(forecast=await self._scheduler.forecast(args.request))

    async def find(self, args: FindArgs) -> Found:
        """As the operator."""
        runs = [
            run if run.possible else run.model_copy(update={"scheduler_id": None})
            for run in args.runs
        ]
        found = list(await self._scheduler.find(runs))
        return Found(jobs=found, settle_s=self._scheduler.settle_s)

    async def poll(self, args: PollArgs) -> Polled:
        """As the operator; one query for all who ask now."""
        self._generations.update(await self._polled.get())
        return self._generations.since(args.since)

    async def cancel(self, args: RunArgs) -> Done:
        """As the account."""
        await asyncio.to_thread(self._guard.account, args.run.account)
        if args.run.possible:
            with self._polled.changing():
                await self._scheduler.cancel(args.run)
        return Done()

    async def extend(self, args: ExtendArgs) -> Done:
        """As the operator, within this site's longest time."""
        await asyncio.to_thread(self._guard.account, args.run.account)
        self._guard.duration(args.time_limit_s)
        if not args.run.possible:
            raise SchedulerRejected("No job has such an id, so none can run longer.")
        with self._polled.changing():
            await self._scheduler.extend(args.run, args.time_limit_s)
        return Done()

    async def cluster(self, args: NoArgs) -> Cluster:
        """As the operator; one query for all who ask now."""
        return await self._cluster.get()

    async def drain(self, args: DrainArgs) -> Done:
        """As an administrator of Slurm."""
        _check_node(args)
        with self._cluster.changing():
            await self._scheduler.drain(args.node, args.reason)
        return Done()

    async def resume(self, args: ResumeArgs) -> Done:
        """As an administrator of Slurm."""
        _check_node(args)
        with self._cluster.changing():
            await self._scheduler.resume(args.node)
        return Done()

    async def create(self, args: CreateArgs) -> Done:
        """As the account, by its helper."""
        return await self._by_helper("create", args, Done)

    async def read_log(self, args: ReadLogArgs) -> LogRead:
        """As the account, by its helper."""
        return await self._by_helper("read_log", args, LogRead)

    async def fence(self, args: TaskArgs) -> FenceRead:
        """As the account, by its helper."""
        return await self._by_helper("fence", args, FenceRead)

    async def close_fence(self, args: TaskArgs) -> FenceRead:
        """As the account, by its helper."""
        return await self._by_helper("close_fence", args, FenceRead)

    async def outcome(self, args: TaskArgs) -> OutcomeRead:
        """As the account, by its helper."""
        return await self._by_helper("outcome", args, OutcomeRead)

    async def accounting_read(self, args: NoArgs) -> Associations:
        """As the operator."""
        return await self._accounting.read()

    async def accounting_apply(self, args: AccountingArgs) -> Done:
        """As the operator, on no account and no user but those that jobs may run as."""
        for change in args.changes:
            await asyncio.to_thread(self._guard.accounting, change)
        await self._accounting.apply(args.changes)
        return Done()

    async def accounting_usage(self, args: UsageArgs) -> Used:
        """As the operator."""
        return Used(rows=list(await self._accounting.usage(args.start, args.end)))

    async def accounting_in_use(self, args: NoArgs) -> InUse:
        """As the operator; one query for all who ask now."""
        return await self._in_use.get()

    async def notes(self, args: NoArgs) -> Notes:
        """What the adapter said when it started, and as whom the broker looks at Slurm."""
        return Notes(notes=list(self.start_notes))

    async def ping(self, args: NoArgs) -> Done:
        """Nothing."""
        return Done()

    async def _by_helper(self, verb: str, args: PlaceArgs, answer: type[A]) -> A:
        return await self._helpers.call(verb, args.model_dump(mode="json"), answer)


def _check_node(args: ResumeArgs) -> None:
    if not args.possible:
        raise SchedulerRejected(f"The cluster has no node {args.node}.")


def check_handlers() -> None:
    """Raises ``TypeError`` when a verb has no method."""
    missing = [name for name in VERBS if not callable(getattr(Handlers, name, None))]
    if missing:
        raise TypeError(f"no handler for {', '.join(missing)}")
