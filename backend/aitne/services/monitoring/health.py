"""Health of all parts of the platform, checked by one task and visible to administrators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from aitne import __version__
from aitne.core.concurrent_coroutines import run_concurrently
from aitne.core.errors import AitneError, StoreUnavailable
from aitne.core.models.health import SEVERITY, Health, HealthState, PartHealth
from aitne.core.models.user import Actor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.monitoring.health_check_result import HealthCheckResult
from aitne.services.monitoring.health_checks import HealthChecks
from aitne.services.platform.process_restart_audit import ProcessRestarts

log = logging.getLogger(__name__)

LOOK_EVERY_S = 15.0
FRESH_S = 3.0
"""Seconds from the start of a round of checks in which a request must come to be answered with it."""


class HealthService:
    """Service that runs the health checks and reports their results, each with the time at which
    the part of the platform changed to its present state.
    """

    def __init__(
        self, checks: HealthChecks, restarts: ProcessRestarts, clock: Callable[[], datetime]
    ) -> None:
        self._checks = checks
        self._restarts = restarts
        self._clock = clock
        self._known: dict[str, PartHealth] = {}
        self._last: Health | None = None
        self._looking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the periodic checks, so that the time at which a failure began is known even
        without requests.
        """
        self._task = asyncio.create_task(self._run(), name="health")

    async def stop(self) -> None:
        """Stop the periodic checks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def report(self, actor: Actor) -> Health:
        """Return the health of every part.

        Raises ``NotAllowed`` unless the actor is an administrator.
        """
        require_permission(PolicyAction.PLATFORM_ADMINISTER, actor, "page", "health")
        return await self._get_recent_health()

    def parts(self) -> Sequence[PartHealth]:
        """Return the parts as last checked, without checking them; empty before the first check."""
        return () if self._last is None else self._last.parts

    async def _run(self) -> None:
        while True:
            try:
                await self._restarts.store()
            except StoreUnavailable as error:
                log.warning("Restarts of hung processes are stored later: %s", error.message)
            await self._get_recent_health()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _get_recent_health(self) -> Health:
        asked = self._clock()
        async with self._looking:
            if self._last is None or (asked - self._last.as_of).total_seconds() >= FRESH_S:
                self._last = await self._check_all_parts()
            return self._last

    async def _check_all_parts(self) -> Health:
        now = self._clock()
        checks = self._checks.all()
        findings = await run_concurrently(_run_check(check) for check in checks.values())
        parts = [
            self._record_result(name, finding, now)
            for name, finding in zip(checks, findings, strict=True)
        ]
        parts.sort(key=lambda part: -SEVERITY.index(part.state))
        self._known = {part.name: part for part in parts}
        return Health(state=parts[0].state, version=__version__, as_of=now, parts=tuple(parts))

    def _record_result(self, name: str, finding: HealthCheckResult, now: datetime) -> PartHealth:
        before = self._known.get(name)
        same = before is not None and before.state is finding.state
        since = finding.since or (before.since if before is not None and same else now)
        if not same and before is not None:
            log.warning("%s: %s, was %s. %s", name, finding.state, before.state, finding.says)
        wrong: dict[str, Any] = {
            "last_problem": None if before is None else before.last_problem,
            "last_problem_at": None if before is None else before.last_problem_at,
        }
        if finding.state is not HealthState.OK:
            wrong = {"last_problem": finding.says, "last_problem_at": now}
        return PartHealth(
            name=name,
            state=finding.state,
            message=finding.says,
            advice=finding.advice,
            since=since,
            facts=finding.facts,
            **wrong,
        )


async def _run_check(check: Callable[[], Awaitable[HealthCheckResult]]) -> HealthCheckResult:
    try:
        return await check()
    except AitneError as error:
        return HealthCheckResult(HealthState.UNKNOWN, f"It could not be checked: {error.message}")
