"""A database with 10,000 jobs of ten users, as a cluster has after some weeks."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import event, insert, text

from aitne.bootstrap.platform_services import build_platform
from aitne.core.jobs.states import STATE_OF_REASON, JobState, TerminationReason
from aitne.core.models.access_token import Scope
from aitne.core.models.job import Job, JobFilter, JobSpec, JobType
from aitne.core.models.project import Project
from aitne.core.models.resources import Resources
from aitne.core.models.user import Actor, Role, User
from aitne.core.settings import Settings
from aitne.store import Store, tables
from aitne.store.rows import row_of

JOBS = 10_000
USERS = tuple(f"user{number}" for number in range(10))
PROJECTS = ("audio", "vision", "text")
ADMIN = "admin"
FILTER = (JobState.COMPLETED, JobState.FAILED)
_REASONS = (
    *[TerminationReason.COMPLETED] * 6,
    *[TerminationReason.FAILED] * 2,
    TerminationReason.TIMED_OUT,
    TerminationReason.CANCELLED,
)
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

Statement = tuple[str, list[Any]]


async def fill(settings: Settings, *, ended: int = JOBS, live: int = 0) -> dict[str, str]:
    """Migrate, make users, projects and jobs, the live ones last; each user's token."""
    platform = build_platform(settings)
    store = platform.store
    await store.start()
    try:
        now = platform.clock()
        tokens = {}
        for number, name in enumerate((ADMIN, *USERS)):
            role = Role.ADMIN if name == ADMIN else Role.USER
            project = PROJECTS[number % len(PROJECTS)]
            user = User(name=name, role=role, default_project=project, created_at=now)
            await store.create_user(user, None, Project(name=project, created_at=now))
            actor = Actor(user=user, projects=frozenset({project}))
            _, tokens[name] = await platform.users.create_token(
                actor,
                name="benchmark",
                # A browser is logged in by a link, for which every scope is needed.
                scopes=frozenset(Scope) if role is Role.ADMIN else frozenset({Scope.READ}),
                lifetime_s=None,
            )
        draw = random.Random(1)
        async with store._db.raw_write() as connection:
            for start in range(0, ended + live, JOBS):
                numbers = range(start, min(start + JOBS, ended + live))
                jobs = [_job(draw, each, live=each >= ended) for each in numbers]
                await connection.execute(insert(tables.jobs), [row_of(job) for job in jobs])
        if settings.database is not None:
            # What a server does by itself after a while; the tests' server has that switched off.
            async with store._db.raw_read() as connection:
                await connection.execute(text("ANALYZE"))
    finally:
        await store.close()
    return tokens


async def statements(settings: Settings, visible_to: str | None, limit: int) -> list[Statement]:
    """Return the SQL statements of one page of jobs with their parameters, as the store sends them."""
    seen: list[Statement] = []
    store = Store(settings.database_url)

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if "FROM jobs" in statement:
            seen.append((statement, [_plain(value) for value in parameters]))

    event.listen(store._db._engine.sync_engine, "before_cursor_execute", note)
    try:
        where = JobFilter(states=frozenset(FILTER))
        await store.list_jobs(where, visible_to=visible_to, limit=limit)
    finally:
        await store.close()
    return seen


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else value


def _job(draw: random.Random, number: int, *, live: bool) -> Job:
    owner = draw.choice(USERS)
    project = PROJECTS[(1 + USERS.index(owner)) % len(PROJECTS)]
    created = _BEGIN + timedelta(seconds=97 * number)
    started, ended = created + timedelta(seconds=30), created + timedelta(seconds=900)
    reason = draw.choice(_REASONS)
    name = f"train-resnet-{number}"
    spec = JobSpec(
        type=JobType.JOB,
        name=name,
        project=project,
        template="python-train",
        template_version="1",
        parameters={"script": "train.py", "arguments": f"--seed {number} --epochs 10"},
        commands=(f"python train.py --seed {number} --epochs 10 --out runs/{number}",),
        env={"OMP_NUM_THREADS": "4"},
        resources=Resources(cpu=4, memory_bytes=16 << 30),
    )
    if live:
        rest: dict[str, Any] = {"state": JobState.QUEUED, "message": "Waits for resources."}
    else:
        rest = {
            "state": STATE_OF_REASON[reason],
            "reason": reason,
            "message": None if reason is TerminationReason.COMPLETED else "It ended early.",
            "exit_code": 0 if reason is TerminationReason.COMPLETED else 1,
            "nodes": ("node01",),
            "allocated_at": started,
            "started_at": started,
            "ended_at": ended,
            "expires_at": started + timedelta(hours=1),
        }
    return Job(
        id=UUID(int=draw.getrandbits(128), version=4),
        owner=owner,
        project=project,
        type=JobType.JOB,
        name=name,
        spec=spec,
        scheduler_id=str(number),
        created_at=created,
        submitted_at=created,
        version=5,
        **rest,
    )
