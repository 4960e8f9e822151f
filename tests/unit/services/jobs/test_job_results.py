"""Results of functions: who reads them, which file it is, and what is too large."""

from __future__ import annotations

import pytest

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from aitne.core.jobs.states import JobState
from aitne.core.models.job import Job
from aitne.core.models.user import Actor
from aitne.services.jobs import file_parts
from aitne.services.jobs.function_results import JobResultService
from tests.unit.services.conftest import ADA, BOB, EVE, ROOT, Bench

S = JobState


@pytest.fixture
def results(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> JobResultService:
    monkeypatch.setattr(file_parts, "PART_BYTES", 4)
    return JobResultService(bench.store, bench.files, bench.renderer.get_location, 10)


async def ended(bench: Bench, state: JobState = S.COMPLETED, **files: bytes) -> Job:
    job = await bench.walk(await bench.running(), state)
    bench.files.written[job.id, job.attempt] = {
        name.replace("_", "."): content for name, content in files.items()
    }
    return job


async def read(
    service: JobResultService, job: Job, actor: Actor = ADA, rank: int | None = None
) -> bytes:
    result = await service.read(actor, job.id, rank)
    data = b"".join([part async for part in result.parts])
    assert len(data) == result.size
    return data


async def test_owner_reads_the_value_in_parts(bench: Bench, results: JobResultService) -> None:
    job = await ended(bench, result_0=b"0123456789", result_1=b"one", result_error=b"earlier")
    assert await read(results, job) == b"0123456789"
    assert await read(results, job, rank=1) == b"one"


async def test_failed_job_has_the_first_exception(bench: Bench, results: JobResultService) -> None:
    job = await ended(bench, S.FAILED, result_0=b"value", result_error=b"raised")
    assert await read(results, job) == b"raised"
    assert await read(results, job, rank=0) == b"value"


async def test_only_the_owner_reads_a_pickle(bench: Bench, results: JobResultService) -> None:
    job = await ended(bench, result_0=b"value")
    for actor, refusal in ((BOB, NotAllowed), (ROOT, NotAllowed), (EVE, NotFound)):
        with pytest.raises(refusal):
            await results.read(actor, job.id, None)


async def test_missing_unfinished_or_large_results_are_refused(
    bench: Bench, results: JobResultService
) -> None:
    with pytest.raises(NotFound, match="has left no result"):
        await results.read(ADA, (await ended(bench)).id, None)
    with pytest.raises(Conflict, match="has not ended"):
        await results.read(ADA, (await bench.running()).id, None)
    large = await ended(bench, result_0=b"x" * 11)
    with pytest.raises(Conflict, match=r"/1/result\.0"):
        await results.read(ADA, large.id, None)
    array = await bench.create(array="0-1")
    with pytest.raises(InvalidInput, match="tasks of an array"):
        await results.read(ADA, array.id, None)
