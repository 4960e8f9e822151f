"""Readings of those sources of the topology that the platform itself reads: the scheduler, and the file
in the settings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

from aitne.core.errors import AitneError, SchedulerUnavailable
from aitne.core.models.cluster import Cluster
from aitne.core.models.cluster_topology import TopologyOrigin
from aitne.core.ports.scheduler import Scheduler, TopologyReporter
from aitne.core.settings import TopologySettings
from aitne.services.controller.leader import Leader
from aitne.store import Store
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.slurm import MAX_BYTES, parse_shown_topology
from aitne_train.topology.switch_tree import TopologyTree
from aitne_train.topology.topology_json import part_to_record
from aitne_train.topology.topology_parts import TopologyPart

log = logging.getLogger(__name__)

CHECK_EVERY_S = 60.0
"""Seconds after which the configuration is compared with that of the last reading."""
READ_AGAIN = timedelta(hours=1)


def _refuse_file(path: Path) -> TopologyPart:
    raise TopologyError("files cannot be read here", "Import the file.", file=str(path))


@dataclass(frozen=True, slots=True)
class TopologyConfig:
    """Settings and function with which the controller reads the topology."""

    settings: TopologySettings = field(default_factory=TopologySettings)
    read_file: Callable[[Path], TopologyPart] = _refuse_file
    """Function that reads a file or folder in any format. It raises ``TopologyError``."""
    conf: Callable[[], Awaitable[str | None]] | None = None
    """Function that returns the text of the ``topology.conf`` for jobs on several nodes; None: they
    get none.
    """


class TopologyWatch:
    """Task that reads the topology from the scheduler and from the file in the settings.

    It reads both at the start and every hour. In addition, it reads the scheduler's topology after
    the scheduler was restarted or its nodes have changed, and the file after it was written.
    """

    def __init__(
        self,
        store: Store,
        scheduler: Scheduler,
        config: TopologyConfig,
        leader: Leader,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        scheduled = (
            TopologyOrigin.SCHEDULER in config.settings.sources and scheduler.capabilities.topology
        )
        self._reporter = cast(TopologyReporter, scheduler) if scheduled else None
        self._file = (
            config.settings.file if TopologyOrigin.FILE in config.settings.sources else None
        )
        self._read_file = config.read_file
        self._leader = leader
        self._clock = clock
        self._read: dict[TopologyOrigin, tuple[object, datetime]] = {}
        """What the last reading of each origin depended on, and its time."""

    async def run(self) -> None:
        """Read the sources when they are due, until cancelled. Raises ``StaleEpoch`` if another
        controller is the leader.
        """
        while True:
            await self.refresh()
            await asyncio.sleep(CHECK_EVERY_S)

    async def refresh(self) -> None:
        """Read the sources that are due. Raises ``StaleEpoch``."""
        if self._reporter is None:
            await self._remove_topology(TopologyOrigin.SCHEDULER)
        else:
            basis = _get_scheduler_fingerprint(await self._store.get_cluster())
            if self._is_due(TopologyOrigin.SCHEDULER, basis):
                await self._read_scheduler(self._reporter, basis)
        if self._file is None:
            await self._remove_topology(TopologyOrigin.FILE)
        else:
            stamp = await asyncio.to_thread(_get_file_fingerprint, self._file)
            if self._is_due(TopologyOrigin.FILE, stamp):
                await self._read_settings_file(self._file, stamp)

    def _is_due(self, origin: TopologyOrigin, basis: object) -> bool:
        last = self._read.get(origin)
        return last is None or last[0] != basis or self._clock() - last[1] >= READ_AGAIN

    async def _remove_topology(self, origin: TopologyOrigin) -> None:
        """Remove the stored topology of a source that is no longer used."""
        if origin in self._read:
            return
        stored = [row for row in await self._store.list_topologies_after(0) if row.origin is origin]
        for row in stored:
            if row.content is not None or row.problem is not None:
                await self._save_topology(origin, row.name, None)
        self._read[origin] = (None, self._clock())

    async def _read_scheduler(self, reporter: TopologyReporter, basis: object) -> None:
        origin = TopologyOrigin.SCHEDULER
        try:
            text = await reporter.read_topology()
            part = await asyncio.to_thread(_parse_switches, text)
        except SchedulerUnavailable as error:
            log.info("The scheduler's topology is not known yet: %s", error.message)
            return
        except (AitneError, TopologyError) as error:
            await self._store_problem(origin, "", str(error))
        else:
            await self._save_topology(origin, "", None if part is None else part_to_record(part))
        self._read[origin] = (basis, self._clock())

    async def _read_settings_file(self, path: Path, stamp: object) -> None:
        origin = TopologyOrigin.FILE
        try:
            part = await asyncio.to_thread(self._read_checked_file, path)
        except TopologyError as error:
            await self._store_problem(origin, str(path), str(error))
        else:
            await self._save_topology(origin, str(path), part_to_record(part))
        self._read[origin] = (stamp, self._clock())

    def _read_checked_file(self, path: Path) -> TopologyPart:
        part = self._read_file(path)
        if part.switches:
            TopologyTree(part.switches)
        return part

    async def _save_topology(
        self, origin: TopologyOrigin, name: str, content: Mapping[str, Any] | None
    ) -> None:
        await self._store.save_topology(origin, name, content, epoch=self._leader.epoch)

    async def _store_problem(self, origin: TopologyOrigin, name: str, problem: str) -> None:
        log.warning("The topology (%s) cannot be read: %s", origin.value, problem)
        await self._store.record_topology_problem(origin, name, problem, epoch=self._leader.epoch)


def _get_scheduler_fingerprint(cluster: Cluster) -> object:
    """Return a value that changes when the scheduler's topology may have changed: the time of its
    start, and the names of its nodes.
    """
    return cluster.started_at, tuple(node.name for node in cluster.nodes)


def _parse_switches(text: str) -> TopologyPart | None:
    """Parse the switches in the scheduler's answer; None if the scheduler describes no switches.
    Raises ``TopologyError`` if the text is invalid.
    """
    if len(text) > MAX_BYTES:
        raise TopologyError(
            f"the scheduler's topology has more than {MAX_BYTES >> 20} MiB",
            "Check the configuration of the scheduler.",
        )
    switches = parse_shown_topology(text)
    if not switches:
        return None
    TopologyTree(switches)
    return TopologyPart(tuple(switches))


def _get_file_fingerprint(path: Path) -> object:
    try:
        state = path.stat()
    except OSError as error:
        return error.errno
    return state.st_mtime_ns, state.st_size, state.st_ino
