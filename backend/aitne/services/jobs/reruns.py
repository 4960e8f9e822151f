"""Repetition of jobs: what has changed since the last run, and sessions that continue an earlier
one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from pydantic import Field

from aitne.core.errors import Conflict, FieldProblem, NotAllowed, NotFound, Unavailable
from aitne.core.jobs.states import LIVE
from aitne.core.models.base import Frozen, deprecated_copy
from aitne.core.models.job import Job, JobFilter, JobType
from aitne.core.models.job_snapshot import EnvironmentKind, Taken
from aitne.core.models.storage_area import PathFacts
from aitne.core.models.user import Actor
from aitne.core.ports.storage_system import UserFolders
from aitne.core.sessions.entry_points import describe_live_successor
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.datasets.datasets import DatasetService
from aitne.services.jobs.admission import Admission
from aitne.services.jobs.job_agent_reports import SnapshotService
from aitne.services.jobs.jobs import JobService
from aitne.services.jobs.outside_job_checks import check_not_outside
from aitne.services.jobs.template_catalog import TemplateCatalog
from aitne.store import Store
from aitne.store.new_jobs import CreatedJob

_MOST_SESSIONS = 200


class Change(Frozen):
    """Difference between the time when the job ran and now, such as a newer image."""

    kind: str = Field(description="Kind: code, packages, image, dataset or template.")
    before: str | None = Field(description="Value when the job ran.")
    now: str | None = Field(description="Present value; null: missing or unknown.")
    message: str = Field(description="Description of the change, as a sentence.")
    what: ClassVar = deprecated_copy("kind", str)


class Rerun(Frozen):
    """Preview of running a job again: whether that is possible, and what has changed since."""

    possible: bool = Field(description="Whether the job can run again unchanged.")
    problems: tuple[FieldProblem, ...] = Field(description="Why it cannot run again.")
    changes: tuple[Change, ...] = Field(description="Known differences from the last run.")
    notes: tuple[str, ...] = Field(description="What could not be compared, as sentences.")


class RerunService:
    """Service that previews whether a job can run again, and continues ended sessions."""

    def __init__(
        self,
        store: Store,
        jobs: JobService,
        admission: Admission,
        snapshots: SnapshotService,
        datasets: DatasetService,
        templates: TemplateCatalog,
        places: UserFolders,
    ) -> None:
        self._store = store
        self._jobs = jobs
        self._admission = admission
        self._snapshots = snapshots
        self._datasets = datasets
        self._templates = templates
        self._places = places

    async def plan(self, actor: Actor, job_id: UUID) -> Rerun:
        """Return what has changed since the job ran, and whether it can run again.

        Raises:
            NotFound: no such job.
            NotAllowed: the job belongs to another user.
            Conflict: the job was submitted outside the platform, or is a rank group.
            InvalidInput: the actor is no longer a member of its project.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_RESUBMIT, actor, "job", job_id, owner=job.owner, project=job.project
        )
        check_not_outside(job, "resubmitted")
        request, problems = await self._admission.resolve_repetition(actor, job)
        snapshot = await self._snapshots.get_snapshot_of_job(job)
        changes = [*await self._newer_datasets(actor, job), *self._newer_template(job)]
        notes: list[str] = []
        if snapshot.taken is None:
            notes.append(
                "What it ran on is not known: its agent reported nothing. Compare its folder manually."
            )
        else:
            taken, repo = snapshot.taken, job.spec.repo
            if repo is not None and taken.git is not None:
                commit = (taken.git.commit or "unknown")[:10]
                notes.append(
                    f"It ran commit {commit}. {repo.ref} is fetched again, and may be another one now."
                )
                taken = taken.model_copy(update={"git": None})  # the clone is fetched anew
            differences, unseen = await self._compare_with_snapshot(taken, request.account.name)
            changes += differences
            notes += unseen
        return Rerun(
            possible=not problems.found,
            problems=tuple(problems.found),
            changes=tuple(changes),
            notes=tuple(notes),
        )

    async def continue_session(
        self, actor: Actor, job_id: UUID, *, idempotency_key: str | None = None
    ) -> CreatedJob:
        """Start a new session that reopens the documents that were open in the ended session.

        Raises:
            Conflict: the session has not ended, or another session continues it already.
            NotFound: there is no such session.
            NotAllowed: the job belongs to another user.
            InvalidInput: the platform can no longer provide what the session used.
        """
        job = await self._store.get_job(job_id)
        require_permission(
            PolicyAction.JOB_RESUBMIT,
            actor,
            "session",
            job_id,
            owner=job.owner,
            project=job.project,
        )
        if job.type is not JobType.SESSION:
            raise NotFound("session", job_id)
        earlier = await self._jobs.replay(actor, "continue", str(job_id), idempotency_key)
        if earlier is not None:
            return earlier
        if not job.state.is_terminal:
            raise Conflict(f"The session has not ended: it is {job.state}. Open it.")
        other = await self._find_continuation(job)
        if other is not None:
            raise Conflict(describe_live_successor(other))
        return await self._jobs.resubmit(
            actor, job_id, idempotency_key=idempotency_key, continues=True
        )

    async def _find_continuation(self, job: Job) -> Job | None:
        """Return the live session that continues the same original session as ``job``; None: there
        is no such session.
        """
        job_filter = JobFilter(owner=job.owner, type=JobType.SESSION, states=LIVE)
        live = await self._store.list_jobs(job_filter, visible_to=None, limit=_MOST_SESSIONS)
        lineage = job.spec.lineage or job.id
        return next(
            (session for session in live.items if (session.spec.lineage or session.id) == lineage),
            None,
        )

    async def _newer_datasets(self, actor: Actor, job: Job) -> Sequence[Change]:
        changes = []
        for use in job.spec.datasets:
            try:
                versions = await self._datasets.versions(actor, use.name)
            except NotFound:
                continue  # the problems tell that it is missing
            newest = next((version for version in versions if not version.retired), None)
            if newest is not None and newest.version != use.version:
                message = f"There is a newer {use.name}: {newest.version}. It would read {use.version} again."
                changes.append(
                    Change(kind="dataset", before=use.version, now=newest.version, message=message)
                )
        return changes

    def _newer_template(self, job: Job) -> Sequence[Change]:
        spec = job.spec
        if spec.template is None or spec.template_version is None:
            return ()
        try:
            now = self._templates.get(spec.template).version
        except NotFound:
            return ()
        if now == spec.template_version:
            return ()
        message = f"The template {spec.template} is at version {now}. It would run {spec.template_version} again."
        return (Change(kind="template", before=spec.template_version, now=now, message=message),)

    async def _compare_with_snapshot(
        self, taken: Taken, account: str | None
    ) -> tuple[list[Change], list[str]]:
        """Compare the snapshot of a job with the current files, as the job's account sees them.

        Returns:
            The differences, and notes for the user about parts that could not be compared.
        """
        folders = _list_source_folders(taken)
        if not folders:
            return [], []
        try:
            path_facts = await self._places.read_paths(account, list(folders.values()))
        except (Unavailable, NotAllowed) as silent:
            return [], [f"Its folders could not be checked: {silent.message}"]
        facts = dict(zip(folders, path_facts, strict=True))
        changes: list[Change] = []
        notes: list[str] = []
        if (current := facts.get("code")) is not None:
            _compare_code(taken, current, changes, notes)
        if (current := facts.get("packages")) is not None:
            _compare_packages(taken, current, changes, notes)
        return changes, notes


def _list_source_folders(taken: Taken) -> dict[str, str]:
    folders = {}
    if taken.git is not None:
        folders["code"] = taken.git.root
    environment = taken.environment
    if environment is None or environment.kind is EnvironmentKind.SYSTEM:
        return folders
    if environment.path and environment.python:
        version = ".".join(environment.python.split(".")[:2])
        below = ("lib", f"python{version}", "site-packages")
        folders["packages"] = posixpath.join(environment.path, *below)
    return folders


def _compare_code(
    taken: Taken, current: PathFacts, changes: list[Change], notes: list[str]
) -> None:
    git = taken.git
    if git is None:
        return
    before = git.commit and git.commit[:10]
    if current.is_missing:
        message = f"The folder {git.root} no longer exists."
        changes.append(Change(kind="code", before=before, now=None, message=message))
    elif current.commit is None:
        notes.append(f"The commit that is checked out in {git.root} now is not known.")
    elif current.commit != git.commit:
        now = current.commit[:10]
        message = f"It ran commit {before}; in {git.root} {now} is checked out now."
        changes.append(Change(kind="code", before=before, now=now, message=message))
    if git.dirty:
        notes.append(
            "It ran with changes that were not committed. Whether they are still there is not checked; "
            "the snapshot has them as a diff."
        )


def _compare_packages(
    taken: Taken, current: PathFacts, changes: list[Change], notes: list[str]
) -> None:
    environment = taken.environment
    if environment is None or environment.path is None:
        return
    if current.is_missing:
        message = f"The environment {environment.path} no longer exists, or has another Python."
        changes.append(
            Change(kind="packages", before=environment.python, now=None, message=message)
        )
    elif current.mtime_ns is None:
        notes.append(f"The environment {environment.path} could not be checked.")
    elif current.mtime_ns > taken.taken_at.timestamp() * 1e9:
        when = datetime.fromtimestamp(current.mtime_ns / 1e9, taken.taken_at.tzinfo)
        message = (
            f"Packages were installed or removed in {environment.path} since, last at "
            f"{when:%Y-%m-%d %H:%M} UTC."
        )
        changes.append(Change(kind="packages", before=None, now=None, message=message))
