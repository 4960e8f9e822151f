"""Amounts that a job file leaves out, on their way to Slurm and back to a job file."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.rest.version_conversion import downgrade_submission
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.core.cluster.partition_defaults import QueueDefaults
from aitne.core.jobs.failure_explanation import FailureCause, suggest_changes
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Cluster, Partition
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.job import JobSpec, ResubmitOptions, RetryPolicy
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import MemoryRequest
from aitne.core.models.template import Template, TemplateResources
from aitne.core.ports.scheduler import SchedulerJob
from aitne.core.settings import LimitSettings, Settings
from aitne.services.controller.changes_from_records import too_many_starts
from aitne.services.jobs.job_renderer import max_requeues
from aitne.services.jobs.requested_resources import (
    explain_added_cpus,
    resolve_resources,
    resolve_time_limit,
    with_default_amounts,
)
from aitne.services.jobs.resource_limit_enforcement import assign_limit_enforcement, split_limits
from tests.support.jobs import make_job, make_session, make_spec
from tests.unit.core.cluster.test_queues import node
from tests.unit.slurm_rest.test_submission import FULL

CLUSTER = Cluster(
    nodes=(node("n1"),),
    partitions=(
        Partition(
            name="cpu",
            default=True,
            nodes=("n1",),
            default_time_s=86_400,
            default_memory_per_cpu_bytes=1_500 << 20,
        ),
        Partition(name="free", nodes=("n1",)),
    ),
)
TEMPLATE = Template.model_validate(
    {
        "name": "t",
        "version": "1.0.0",
        "title": "T",
        "type": "job",
        "commands": ["true"],
        "resources": {"memory": {"default": "3G"}, "max_duration": {"default": "2h"}},
    }
)


def resolved(
    file: dict[str, Any], template: Template | None = None, cluster: Cluster | None = CLUSTER
) -> tuple[JobSpec, str | None]:
    """Return the specification of a job file for Slurm (for a scheduler without defaults of its own
    without ``cluster``), and the note about its time limit.
    """
    job_file = JobFile.model_validate(file)
    queue = None if cluster is None else QueueDefaults.from_options(job_file.slurm, cluster)
    offered = TemplateResources() if template is None else template.resources
    resources = resolve_resources(job_file.resources, offered, queue=queue, nodes=CLUSTER.nodes)
    longest = LimitSettings().max_duration
    limit = resolve_time_limit(job_file.max_duration, offered.max_duration.default, longest, queue)
    spec = make_spec(
        resources=resources,
        max_duration_s=limit.seconds,
        max_duration_requested=limit.requested,
        slurm=job_file.slurm,
    )
    return spec, limit.note


def passed(spec: JobSpec, **fields: Any) -> list[str]:
    """Return the options of sbatch about memory, time and requeues."""
    request = FULL.model_copy(
        update={
            "resources": spec.resources,
            "time_limit_s": spec.max_duration_s,
            "default_time_limit": not spec.max_duration_requested,
            "max_requeues": max_requeues(make_job(spec=spec)),
            "slurm": spec.slurm,
            **fields,
        }
    )
    words = [*make_sbatch_arguments(request, accounting=True)]
    for version in (38, 40, 42):
        assert make_submission(words, {}) is not None
        plain = request.model_copy(update={"array": None})
        job = make_submission([*make_sbatch_arguments(plain, accounting=True)], {}) or {}
        sent = downgrade_submission(job, version)
        assert ("time_limit" in sent) is any(word.startswith("--time=") for word in words)
        assert ("memory_per_node" in sent) is any(word.startswith("--mem=") for word in words)
        assert bool({"requeue", "no_requeue"} & sent.keys()) is any("requeue" in w for w in words)
    return [word for word in words if word.startswith(("--mem", "--time=")) or "requeue" in word]


def test_slurm_decides_what_the_job_file_leaves_out() -> None:
    spec, note = resolved({"commands": ["true"], "resources": {"cpu": 8}})
    assert passed(spec) == []
    assert spec.resources.memory_request is MemoryRequest.DEFAULT
    # What is shown, charged and compared with limits is what Slurm will use.
    assert (spec.resources.memory_bytes, spec.max_duration_s) == (12_000 << 20, 86_400)
    assert note is None
    file = job_to_file(spec)
    assert "memory" not in file["resources"]
    assert not {"max_duration", "retry"} & file.keys()


@pytest.mark.parametrize(
    ("file", "template", "expected"),
    [
        ({"resources": {"memory": "2G"}}, None, ["--mem=2048M"]),
        ({"resources": {"memory": "all"}}, None, ["--mem=0"]),
        ({"max_duration": "90m"}, None, ["--time=0-01:30:00"]),
        ({}, TEMPLATE, ["--mem=3072M", "--time=0-02:00:00"]),
        ({"slurm": {"requeue": True}}, None, ["--requeue"]),
        ({"slurm": {"requeue": False}}, None, ["--no-requeue"]),
    ],
)
def test_values_of_user_or_template_are_passed(
    file: dict[str, Any], template: Template | None, expected: list[str]
) -> None:
    spec, _ = resolved({"commands": ["true"], **file}, template)
    assert passed(spec) == expected
    written = JobFile.model_validate(job_to_file(spec))
    if template is None:
        assert written.resources.memory == JobFile.model_validate(file).resources.memory


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ({}, []),
        ({"max": 1, "on": frozenset({TerminationReason.NODE_FAILED})}, ["--requeue"]),
        ({"max": 1, "on": frozenset({TerminationReason.FAILED})}, ["--no-requeue"]),
        ({"max": 0, "on": frozenset({TerminationReason.NODE_FAILED})}, ["--no-requeue"]),
    ],
)
def test_requeue_is_slurms_unless_the_job_file_has_retries(
    retry: dict[str, Any], expected: list[str]
) -> None:
    spec, _ = resolved({"commands": ["true"]})
    spec = spec.model_copy(update={"retry": RetryPolicy(**retry)})
    assert passed(spec) == expected
    job = make_job(spec=spec)
    record = SchedulerJob(
        scheduler_id="1", job_id=job.id, attempt=1, state=JobState.RUNNING, restart_count=5
    )
    assert too_many_starts(job, record) is bool(retry)


def test_session_is_never_requeued() -> None:
    assert max_requeues(make_session()) == 0
    assert passed(resolved({"commands": ["true"]})[0], session=True) == ["--no-requeue"]


def test_platforms_longest_duration_is_requested_and_noted() -> None:
    spec, note = resolved({"commands": ["true"], "slurm": {"partition": "free"}})
    assert passed(spec) == ["--time=7-00:00:00"]
    assert note == (
        "Its time limit is 7d, the longest that the site permits on this platform; by default the "
        "partition would give it no time limit."
    )


def test_scheduler_without_defaults_gets_the_platforms() -> None:
    spec, _ = resolved({"commands": ["true"]}, cluster=None)
    assert (spec.resources.memory_bytes, spec.max_duration_s) == (2 << 30, 4 * 3_600)
    assert spec.resources.memory_request is MemoryRequest.AMOUNT
    assert spec.max_duration_requested
    whole, _ = resolved({"commands": ["true"], "resources": {"memory": "all"}}, cluster=None)
    assert whole.resources.memory_bytes == 16 << 30


def test_a_repeated_job_gets_the_defaults_of_now() -> None:
    spec, _ = resolved({"commands": ["true"], "resources": {"cpu": 2}})
    now = CLUSTER.partitions[0].model_copy(
        update={"default_time_s": 600, "default_memory_per_cpu_bytes": 1 << 30}
    )
    cluster = CLUSTER.model_copy(update={"partitions": (now,)})
    settings = Settings(scheduler="slurm")
    again = with_default_amounts(spec, settings, cluster, None)
    assert (again.resources.memory_bytes, again.max_duration_s) == (2 << 30, 600)
    assert passed(again) == []
    more = ResubmitOptions.model_validate({"memory": "8G", "max_duration": "2h"}).apply_to(again)
    assert passed(more) == ["--mem=8192M", "--time=0-02:00:00"]
    local = with_default_amounts(spec, Settings(), cluster, None)
    assert (local.resources.memory_bytes, local.max_duration_requested) == (2 << 30, True)


def test_agent_limits_only_what_was_requested() -> None:
    for file, amount in (
        ({"memory": "2G"}, 2 << 30),
        ({"memory": "all"}, None),
        ({}, None),
    ):
        spec, _ = resolved({"commands": ["true"], "resources": file})
        held, said = assign_limit_enforcement(spec, CLUSTER, Settings(scheduler="slurm"))
        assert split_limits(held)[1].memory_bytes == amount
        assert "GiB" in said[0] or "MiB" in said[0] or "all memory of its nodes" in said[0]


def test_more_memory_is_no_remedy_for_a_job_with_all_memory() -> None:
    spec, _ = resolved({"commands": ["true"], "resources": {"memory": "all"}})
    assert suggest_changes(make_job(spec=spec), FailureCause.OUT_OF_MEMORY) == ()
    spec, _ = resolved({"commands": ["true"]})
    (first, *_) = suggest_changes(make_job(spec=spec), FailureCause.OUT_OF_MEMORY)
    assert first.memory == 3_000 << 20


def test_cpus_that_the_partition_gives_gpus_are_told_and_not_limited() -> None:
    partition = CLUSTER.partitions[0].model_copy(update={"default_cpus_per_gpu": 4})
    cluster = CLUSTER.model_copy(
        update={"partitions": (partition,), "agent_cgroups": ("cpu", "memory")}
    )
    queue = QueueDefaults.from_options(SlurmOptions(), cluster)
    for requested, told in (({"gpu": 2}, 8), ({"gpu": 2, "cpu": 3}, None), ({}, None)):
        spec, _ = resolved({"resources": requested}, cluster=cluster)
        held, sentences = assign_limit_enforcement(spec, cluster, Settings(scheduler="slurm"))
        assert held.held_by.agent_cpus is (told is None)
        cpus = told or spec.resources.cpu
        assert spec.resources.memory_bytes == cpus * 1_500 << 20
        notes = explain_added_cpus(spec.resources, queue)
        assert [f"the job gets {told} CPUs on each node" in note for note in notes] == [True] * (
            told is not None
        )
        assert told is None or f"{told} CPUs" in sentences[1]
        # Slurm is asked for no number, so that it decides.
        sent = make_sbatch_arguments(
            FULL.model_copy(update={"resources": spec.resources}), accounting=True
        )
        assert any("cpus-per-task" in option for option in sent) is ("cpu" in requested)
