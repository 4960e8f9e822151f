"""Tasks of a job: from the job file to the options of sbatch and back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.core.jobs.job_to_file import job_to_file
from aitne.core.models.cluster import Cluster, Holder
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import Resources
from aitne.core.models.template import TemplateResources
from aitne.core.settings import Settings
from aitne.services.jobs.requested_resources import resolve_resources
from aitne.services.jobs.resource_limit_enforcement import assign_limit_enforcement
from tests.support.jobs import make_spec
from tests.unit.slurm_rest.test_submission import FULL


def resolved(**requested: Any) -> Resources:
    """Return the resources of a job file that requests these, without a template."""
    file = JobFile.model_validate({"resources": requested})
    return resolve_resources(file.resources, TemplateResources(), queue=None, nodes=())


@pytest.mark.parametrize(
    ("requested", "cpu", "passed"),
    [
        (
            {"tasks_per_node": 4, "cpus_per_task": 2},
            8,
            ["--ntasks-per-node=4", "--cpus-per-task=2"],
        ),
        ({"tasks_per_node": 4, "cpu": 8}, 8, ["--ntasks-per-node=4", "--cpus-per-task=2"]),
        ({"tasks_per_node": 4}, 4, ["--ntasks-per-node=4"]),
        ({"cpus_per_task": 8}, 8, ["--cpus-per-task=8"]),
        ({"cpu": 8}, 8, ["--cpus-per-task=8"]),
        ({}, 1, []),
    ],
)
def test_tasks_reach_slurm(requested: dict[str, int], cpu: int, passed: list[str]) -> None:
    resources = resolved(nodes=2, **requested)
    assert resources.cpu == cpu
    request = FULL.model_copy(update={"resources": resources})
    words = list(make_sbatch_arguments(request, accounting=True))
    assert [word for word in words if "task" in word] == passed
    job = make_submission(words, {})
    assert job is not None
    named = dict(word.removeprefix("--").split("=") for word in passed)
    tasks, cpus = named.get("ntasks-per-node"), named.get("cpus-per-task")
    assert job.get("tasks_per_node") == (tasks and int(tasks))
    assert job.get("tasks") == (tasks and 2 * int(tasks))
    assert job.get("cpus_per_task") == (cpus and int(cpus))


@pytest.mark.parametrize(
    "requested",
    [
        {"tasks_per_node": 4, "cpus_per_task": 2},
        {"tasks_per_node": 4},
        {"cpus_per_task": 8},
        {"cpu": 8},
    ],
)
def test_job_file_of_a_job_requests_its_tasks(requested: dict[str, int]) -> None:
    spec = make_spec(resources=resolved(**requested))
    assert job_to_file(spec)["resources"] == {**requested, "memory": "2G"}


@pytest.mark.parametrize(
    ("requested", "reason"),
    [
        ({"cpu": 4, "cpus_per_task": 2}, "set one of them"),
        ({"cpu": 7, "tasks_per_node": 2}, "7 CPUs on a node are not the same number"),
        ({"tasks_per_node": 0}, "greater than or equal to 1"),
        ({"cpus_per_task": "2"}, "valid integer"),
    ],
)
def test_contradicting_tasks_are_refused(requested: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        JobFile.model_validate({"resources": requested})


def test_agent_does_not_limit_the_cpus_of_an_exclusive_job() -> None:
    cluster = Cluster(memory_held_by=Holder.SAMPLING, agent_cgroups=("cpu", "memory"))
    settings = Settings(scheduler="slurm")
    shared, _ = assign_limit_enforcement(make_spec(), cluster, settings)
    alone, _ = assign_limit_enforcement(
        make_spec(slurm=SlurmOptions(exclusive=True)), cluster, settings
    )
    assert (shared.held_by.agent_cpus, alone.held_by.agent_cpus) == (True, False)
    assert alone.held_by.agent_memory
