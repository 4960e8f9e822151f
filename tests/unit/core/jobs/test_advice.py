"""Advice beside the pending reason of a job: only changes that would help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aitne.core.cluster.gpu_forecast import FreeGpus, GpuCapacity
from aitne.core.jobs.pending_job_advice import Advice, advise_on_pending_job
from aitne.core.jobs.states import JobState
from aitne.core.models.cluster import GpuCount, Node
from aitne.core.models.job import Job
from aitne.core.models.resources import GpuRequest, Resources
from tests.support.jobs import make_job
from tests.unit.core.cluster.test_capacity import G, node

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def waiting(cpu: int = 1, memory: int = G, gpu: int = 0, kind: str | None = None) -> Job:
    resources = Resources(cpu=cpu, memory_bytes=memory, gpu=GpuRequest(count=gpu, type=kind))
    return make_job(state=JobState.QUEUED, spec={"resources": resources})


def running(name: str, *nodes: str, project: str = "vision") -> Job:
    return make_job(state=JobState.RUNNING, name=name, nodes=nodes, project=project)


def said(job: Job, *nodes: Node, **facts: object) -> list[Advice]:
    known = {"gpus": (), "running": (), "before": (), "limit": None} | facts
    return list(advise_on_pending_job(job, nodes=nodes, **known))  # type: ignore[arg-type]


def test_too_large_for_any_node_says_what_would_fit() -> None:
    (found,) = said(waiting(cpu=16), node(cpu=8))
    assert found.text == "No node is large enough now. What would fit: CPUs: 1 to 8."


def test_a_limit_names_the_work_of_ones_own_in_that_project() -> None:
    job = waiting()
    held, elsewhere = running("train", project=job.project), running("other", project="speech")
    limit = "Waits for the limit of project vision: 8 of 8 GPUs in use."
    found = said(job, node(), running=(held, elsewhere), limit=limit)
    assert found[0].text == limit
    assert [[each.name for each in one.jobs] for one in found] == [[], ["train"]]


def test_a_busy_type_of_gpu_names_a_free_one_and_when_it_is_free_itself() -> None:
    nodes = (
        node("a", gpus=(GpuCount(type="a100", total=2, used=2),)),
        node("b", gpus=(GpuCount(type="l40", total=2, used=0),)),
    )
    later = NOW + timedelta(hours=2)
    steps = (FreeGpus(at=NOW, free=0), FreeGpus(at=NOW + timedelta(hours=1), free=1))
    capacity = GpuCapacity(
        type="a100",
        total=2,
        free=0,
        used=2,
        unavailable=0,
        end_unknown=0,
        waiting=2,
        next_free_at=steps[1].at,
        forecast=(*steps, FreeGpus(at=later, free=2)),
    )
    other, own = said(waiting(gpu=2, kind="a100"), *nodes, gpus=(capacity,))
    assert other.text == "Of the GPUs of type l40, 2 are free: with those it could start now."
    assert (own.text, own.at) == ("2 a100 GPUs come free at the latest", later)
    contested = capacity.model_copy(update={"waiting": 5})
    _, own = said(waiting(gpu=2, kind="a100"), *nodes, gpus=(contested,))
    assert "others wait too" in own.text


def test_advice_names_free_resources_and_own_jobs_on_nodes() -> None:
    job, lab, away = waiting(cpu=8, memory=4 * G), running("lab", "n1"), running("far", "n9")
    task = lab.model_copy(update={"array_task_id": 3})
    smaller, held = said(job, node("n1", cpu=8, used=5), running=(task, away))
    assert smaller.text == "With 3 CPUs and 4 GiB it could start now."
    assert [each.name for each in held.jobs] == ["lab"]
    assert [each.array_task_id for each in held.jobs] == [3]
    (one_cpu,) = said(job, node("n1", cpu=8, used=7), running=(away,))
    assert one_cpu.text == "With 1 CPU and 4 GiB it could start now."
    assert said(job, node("n1", cpu=8, used=8), running=(away,)) == []


def test_a_rank_group_is_not_told_to_wait_for_the_end_of_its_own_session() -> None:
    lab = running("lab", "n1")
    group = waiting(cpu=8).model_copy(update={"session_id": lab.id})
    full = node("n1", cpu=8, used=8)
    assert said(group, full, running=(lab,)) == []
    (limited,) = said(group, full, running=(lab,), limit="The project is at its limit.")
    assert limited.text == "The project is at its limit."


def test_advice_names_dependency_first() -> None:
    (found,) = said(waiting(), node(), before=(running("prepare"),))
    assert [each.name for each in found.jobs] == ["prepare"]


def test_a_job_that_only_waits_for_its_turn_is_told_nothing() -> None:
    assert said(waiting(), node()) == []
