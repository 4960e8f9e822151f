"""Deletion of jobs by the controller: their folders first, and nothing half done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from aitne.core.errors import Unavailable
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job, JobChanges
from aitne.core.models.limits import Limits
from aitne.core.models.project import Project, Retention
from aitne.core.ports.job_files import FolderRemoval, JobLocation
from aitne.core.retention import RetentionSettings
from aitne.services.controller.ended_job_deletion import EXPIRE_EVERY, RetentionWatch
from aitne.store.project_life_cycle import ProjectChange
from tests.support.files import MemoryFiles
from tests.support.jobs import make_job
from tests.unit.controller.conftest import Bench

KEEP = RetentionSettings(keep_jobs=86_400, keep_failed_jobs=7 * 86_400)


def place(job: Job) -> JobLocation:
    folder = f"/jobs/{job.id}"
    return JobLocation(job_id=job.id, attempt=job.attempt, folder=folder, account=job.account)


def watch_of(
    b: Bench, settings: RetentionSettings = KEEP, files: MemoryFiles | None = None
) -> RetentionWatch:
    return RetentionWatch(b.store, files or b.files, place, b.leader, b.clock, settings)


async def ended(b: Bench, state: JobState = JobState.COMPLETED, **fields: Any) -> Job:
    job = make_job(state=JobState.RUNNING, scheduler_id="7", **fields)
    await b.store.create_job(job)
    return await b.store.transition_job(job.id, state, JobChanges(ended_at=b.clock()))


async def left(b: Bench, *jobs: Job) -> set[UUID]:
    return {job.id for job in await b.store.find_jobs([job.id for job in jobs])}


async def test_jobs_are_measured_at_their_end_and_deleted_when_they_are_too_old(
    bench: Any,
) -> None:
    b: Bench = await bench()
    watch = watch_of(b)
    done, failed = await ended(b), await ended(b, JobState.FAILED)
    running = make_job(state=JobState.UNKNOWN)
    await b.store.create_job(running)
    await watch.process_batch()
    assert sorted(b.files.tidied) == sorted([done.id, failed.id])
    assert (await b.store.get_job(done.id)).folder_bytes == 4_096
    b.clock.advance(86_400)
    await watch.process_batch()
    assert b.files.removed == [done.id]
    assert await left(b, done, failed, running) == {failed.id, running.id}
    b.clock.advance(365 * 86_400)
    await watch.process_batch()
    assert await left(b, failed, running) == {running.id}


async def test_a_job_whose_folder_cannot_be_removed_stays_until_it_can(bench: Any) -> None:
    b: Bench = await bench()
    watch = watch_of(b, RetentionSettings())
    job = await ended(b)
    await b.store.request_delete([job.id], b.clock())
    b.files.failing = Unavailable("The home of ada does not answer.")
    await watch.process_batch()
    stored = await b.store.get_job(job.id)
    assert stored.delete_problem == "The home of ada does not answer."
    b.files.failing = None
    await watch.process_batch()  # not at once again
    assert not b.files.removed
    b.clock.advance(3_600)
    # The folder of all jobs is not there: that proves nothing.
    b.files.removals = [FolderRemoval(done=True, root_visible=False)]
    await watch.process_batch()
    assert "out of reach" in ((await b.store.get_job(job.id)).delete_problem or "")
    b.clock.advance(2 * 3_600)
    # A large folder takes several steps, and more than one batch.
    b.files.removals = [FolderRemoval(done=False)] * 7
    await watch.process_batch()
    assert (await b.store.get_job(job.id)).delete_problem is None
    await watch.process_batch()
    assert b.files.removed == [job.id]
    assert not await left(b, job)


async def test_a_job_that_never_reached_the_scheduler_needs_no_folder(bench: Any) -> None:
    b: Bench = await bench()
    watch = watch_of(b)
    job = make_job()
    await b.store.create_job(job)
    await b.store.request_cancel(job.id, b.clock())
    b.files.failing = Unavailable("The folder does not exist.")
    await watch.process_batch()
    assert not await b.store.list_due_folders(b.clock() + timedelta(days=1), 9)
    b.files.failing = None
    await b.store.request_delete([job.id], b.clock())
    b.files.removals = [FolderRemoval(done=True, root_visible=False)]
    await watch.process_batch()
    assert not await left(b, job)


async def test_a_hanging_home_delays_no_deletion_of_other_users(bench: Any) -> None:
    b: Bench = await bench()
    asked: list[str | None] = []

    class HomeOfAdaHangs(MemoryFiles):
        async def remove_job_folder(self, place: JobLocation) -> FolderRemoval:
            asked.append(place.account)
            if place.account == "ada":
                raise Unavailable("The home of ada does not answer.")
            return await MemoryFiles.remove_job_folder(self, place)

    watch = watch_of(b, RetentionSettings(), HomeOfAdaHangs())
    jobs = [await ended(b, account=account) for account in ("ada", "bob", "ada")]
    await b.store.request_delete([job.id for job in jobs], b.clock())
    await watch.process_batch()
    assert sorted(asked, key=str) == ["ada", "bob"]  # ada's second folder is not tried
    assert await left(b, *jobs) == {jobs[0].id, jobs[2].id}


async def test_a_project_keeps_its_jobs_as_it_has_set(bench: Any) -> None:
    b: Bench = await bench()
    watch = watch_of(b, RetentionSettings(max_keep_jobs="forever"))
    job = await ended(b)
    project = Project(name="vision", created_at=b.clock())
    await b.store.create_project(project, Limits(), actor="root")
    change = ProjectChange("retention", {"retention": Retention(keep_jobs=86_400)})
    await b.store.update_project("vision", change, actor="root")
    b.clock.advance(86_399)
    await watch.process_batch()
    assert await left(b, job)
    b.clock.advance(EXPIRE_EVERY.total_seconds())
    await watch.process_batch()
    assert not await left(b, job)
