"""The ``distributed`` part of a job: names that there are, and what can be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

import aitne_train
from aitne.core.models.job import DistributedSpec
from aitne.core.models.job_file import JobFile
from aitne.core.models.resources import GpuRequest, Resources
from aitne.services.jobs import distributed_checks
from aitne_train.launcher.transport_requirements import ONE_NODE


def fields(resources: Resources, **spec: object) -> dict[str, str]:
    found = distributed_checks.find_distributed_problems(
        DistributedSpec.model_validate(spec), resources
    )
    return {each.field: each.message for each in found}


def test_the_names_are_those_of_the_runtimes_files() -> None:
    assert {"auto", "gloo", "nccl", "shm", "mpi"} <= set(
        distributed_checks.list_permitted_values("backend")
    )
    assert "allreduce" in distributed_checks.list_permitted_values("strategy")
    assert "none" in distributed_checks.list_permitted_values("compress")
    assert "base" not in distributed_checks.list_permitted_values("backend")
    folder = Path(aitne_train.__file__).parent / "compress"
    files = {path.stem for path in folder.glob("[a-z]*.py")} - {"base"}
    assert set(distributed_checks.list_permitted_values("compress")) == files | {"none"}


def test_needs_of_transports_name_existing_ones() -> None:
    assert set(ONE_NODE) <= set(distributed_checks.list_permitted_values("backend"))


@pytest.mark.parametrize("field", ["backend", "strategy", "compress"])
def test_an_unknown_name_is_said_with_those_that_there_are(field: str) -> None:
    (problem,) = distributed_checks.find_distributed_problems(
        DistributedSpec.model_validate({field: "carrier_pigeon"}), Resources()
    )
    assert problem.field == f"distributed.{field}"
    assert problem.value == "carrier_pigeon"
    assert problem.allowed == ", ".join(distributed_checks.list_permitted_values(field))


@pytest.mark.parametrize("backend", ["mpi", "horovod", "shm"])
def test_backend_for_one_node_is_refused_on_two_nodes(backend: str) -> None:
    assert fields(Resources(), backend=backend) == {}
    (message,) = fields(Resources(nodes=2), backend=backend).values()
    assert message.startswith(f"{backend} serves one node only: ")


@pytest.mark.parametrize("field", ["tasks_per_node", "cpus_per_task"])
def test_distributed_job_has_ranks_and_no_tasks(field: str) -> None:
    (problem,) = distributed_checks.find_distributed_problems(
        DistributedSpec(), Resources(**{field: 2})
    )
    assert (problem.field, problem.value) == (f"resources.{field}", "2")
    assert problem.allowed is not None
    assert {"tasks_per_node": "ranks_per_node", "cpus_per_task": "resources.cpu"}[
        field
    ] in problem.allowed


def test_nccl_needs_gpus() -> None:
    assert "distributed.backend" in fields(Resources(nodes=2), backend="nccl")
    assert fields(Resources(gpu=GpuRequest(count=2)), backend="nccl") == {}


@pytest.mark.parametrize(
    ("resources", "ranks", "said"),
    [
        (
            Resources(cpu=2),
            4,
            "4 ranks share 2 CPUs on each node; request resources.cpu: 4 or more.",
        ),
        (Resources(cpu=4, gpu=GpuRequest(count=1)), 2, "2 ranks share 1 GPU on each node"),
        (Resources(cpu=4, gpu=GpuRequest(count=4)), 1, "3 of 4 GPUs on each node have no rank."),
    ],
)
def test_distributed_plan_warns_of_unsuitable_resources(
    resources: Resources, ranks: int, said: str
) -> None:
    spec = DistributedSpec(ranks_per_node=ranks)
    assert any(
        said in each for each in distributed_checks.list_distributed_warnings(spec, resources)
    )


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_cpu_and_perhaps_a_gpu_for_each_rank_is_nothing_to_warn_of(gpus: int) -> None:
    resources = Resources(nodes=2, cpu=2, gpu=GpuRequest(count=gpus))
    assert not distributed_checks.list_distributed_warnings(
        DistributedSpec(ranks_per_node=2), resources
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"ranks_per_node": 0},
        {"ranks_per_node": "4"},
        {"ranks_per_node": 1_000},
        {"backend": "gloo; rm"},
        {"backend": "--evil"},
        {"compress": "../x"},
        {"nodes": 2},
    ],
)
def test_the_schema_is_strict(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JobFile.model_validate({"commands": ["x"], "distributed": wrong})


def test_scripts_for_horovod_do_not_use_the_backend_of_horovod() -> None:
    assert fields(Resources(), backend="auto", horovod=True) == {}
    assert fields(Resources(), backend="horovod") == {}
    message = fields(Resources(), backend="horovod", horovod=True)["distributed.horovod"]
    assert "the backend horovod is Horovod itself" in message
