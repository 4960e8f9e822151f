"""A submission as JSON, and Slurm's recorded answers."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm import command_errors
from aitne.adapters.schedulers._slurm.rest.failed_responses import classify_failed_submission
from aitne.adapters.schedulers._slurm.rest.rest_http_client import RestClient
from aitne.adapters.schedulers._slurm.rest.submission import make_submission
from aitne.adapters.schedulers._slurm.rest.version_conversion import (
    NotExpressible,
    downgrade_submission,
)
from aitne.adapters.schedulers._slurm.sbatch_arguments import make_sbatch_arguments
from aitne.adapters.schedulers._slurm.submission_failure import SubmissionFailure
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.ports.scheduler import SubmitRequest
from tests.unit.slurm_rest.recorded import VERSIONS, answer

FULL = SubmitRequest(
    job_id=UUID(int=7),
    attempt=2,
    owner="ada",
    project="vision",
    name="any name",
    script="#!/bin/sh\n",
    job_dir="/home/alice/jobs/7/2",
    resources=Resources(
        nodes=2,
        cpu=4,
        memory_bytes=3 << 30,
        gpu=GpuRequest(count=2, type="a100"),
        gres={"shard": 1},
    ),
    time_limit_s=5_430,
    array="0-9%2",
    after=("11", "12"),
    max_requeues=1,
    slurm=SlurmOptions(
        partition="gpu,debug",
        qos="high",
        constraint="nvlink&ib",
        reservation="course",
        exclusive=True,
    ),
)


def described(request: SubmitRequest, *allowed: str) -> dict[str, object] | None:
    return make_submission(
        [*make_sbatch_arguments(request, accounting=True, allowed=allowed)], {"PATH": "/bin"}
    )


def test_submission_contains_all_sbatch_options() -> None:
    job = described(FULL)
    assert job is not None
    environment = job.pop("environment")
    assert environment == [
        "PATH=/bin",
        "SLURM_CPUS_PER_TASK=4",
        "SLURM_TRES_PER_TASK=cpu=4",
        "SLURM_JOB_DEPENDENCY=afterok:11:12",
        "SLURM_SUBMIT_DIR=/home/alice/jobs/7/2",
        f"SLURM_SUBMIT_HOST={socket.gethostname()}",
        "SLURM_PRIO_PROCESS=0",
    ]
    assert job == {
        "name": f"aitne-{UUID(int=7)}-2",
        "comment": f"aitne:{UUID(int=7)}:2",
        "current_working_directory": "/home/alice/jobs/7/2",
        "standard_output": "/home/alice/jobs/7/2/output-%a.log",
        "open_mode": ["APPEND"],
        "nodes": "2",
        "cpus_per_task": 4,
        "tres_per_task": "cpu=4",
        "minimum_cpus": 8,
        "memory_per_node": {"set": True, "infinite": False, "number": 3072},
        "time_limit": {"set": True, "infinite": False, "number": 91},
        "tres_per_node": "gres/gpu:a100:2,gres/shard:1",
        "partition": "gpu,debug",
        "qos": "high",
        "account": "vision",
        "constraints": "nvlink&ib",
        "reservation": "course",
        "shared": ["none"],
        "array": "0-9%2",
        "dependency": "afterok:11:12",
        "flags": ["KILL_INVALID_DEPENDENCY"],
        "requeue": True,
    }


def spelled(*names: str, **fields: object) -> list[str]:
    """Return the options about amounts of a job that names them so."""
    resources = FULL.resources.model_copy(update={"sbatch_options": names, **fields})
    request = FULL.model_copy(update={"resources": resources})
    amounts = re.compile(r"--(gpu|gres|mem|ntasks|nodes)")
    return [each for each in make_sbatch_arguments(request, accounting=True) if amounts.match(each)]


def test_amounts_are_requested_as_the_script_spells_them() -> None:
    plain = ["--nodes=2", "--mem=3072M", "--gres=gpu:a100:2,shard:1"]
    assert spelled() == plain
    assert spelled("gpus-per-task", "ntasks") == plain, "it has no tasks"
    shards = "--gres=shard:1"
    assert spelled("gpus-per-node", "mem-per-cpu") == [
        "--nodes=2",
        "--mem-per-cpu=768M",
        "--gpus-per-node=a100:2",
        shards,
    ]
    assert spelled("gpus", "mem-per-gpu") == [
        "--nodes=2",
        "--mem-per-gpu=1536M",
        "--gpus=a100:4",
        shards,
    ]
    tasks = {"tasks_per_node": 2, "cpus_per_task": 2}
    assert spelled("gpus-per-task", "ntasks", **tasks) == [
        "--nodes=2",
        "--ntasks=4",
        "--mem=3072M",
        "--gpus-per-task=a100:1",
        shards,
    ]
    alone = {"tasks_per_node": 4, "gpu": GpuRequest(count=0), "gres": {}}
    assert spelled("gpus", "mem-per-gpu", **alone) == [
        "--nodes=2",
        "--ntasks-per-node=4",
        "--mem=3072M",
    ]


def test_gpus_of_each_node_are_a_variable_too() -> None:
    resources = FULL.resources.model_copy(update={"sbatch_options": ("gpus-per-node",)})
    job = described(FULL.model_copy(update={"resources": resources}))
    assert job is not None
    assert job["tres_per_node"] == "gres/gpu:a100:2,gres/shard:1"
    assert isinstance(job["environment"], list)
    assert "SLURM_GPUS_PER_NODE=a100:2" in job["environment"]


def test_the_same_for_22_05() -> None:
    job = described(FULL)
    assert job is not None
    old = downgrade_submission(job, 38)
    assert old["environment"]["PATH"] == "/bin"
    assert old["memory_per_node"] == 3072
    assert old["time_limit"] == 91
    assert old["gres"] == "gpu:a100:2,shard:1"
    assert "tres_per_node" not in old
    assert old["exclusive"] == "exclusive"
    assert old["open_mode"] == "append"
    assert old["kill_on_invalid_dependency"] is True
    assert old["requeue"] is True
    once = described(FULL.model_copy(update={"max_requeues": 0}))
    assert once is not None
    assert once["requeue"] is False
    assert "requeue" not in downgrade_submission(once, 38)
    assert downgrade_submission(once, 38)["no_requeue"] is True
    assert not {"tres_per_task", "minimum_cpus"} & old.keys()
    assert "SLURM_TRES_PER_TASK" not in old["environment"]
    assert old["nodes"] == "2"  # it ignores the list of two numbers that it documents


@pytest.mark.parametrize(
    ("resources", "tasks", "cpus"),
    [
        ({"nodes": 2, "cpu": 2}, None, 4),
        ({"nodes": 2, "cpu": 6, "tasks_per_node": 3, "cpus_per_task": 2}, 6, 12),
        ({"nodes": 2, "cpu": 3, "tasks_per_node": 3}, 6, 6),
        ({"tasks_per_node": 4, "cpu": 4, "sbatch_options": ("ntasks",)}, 4, 4),
        ({"nodes": 2, "cpu": 1}, None, None),
    ],
)
def test_slurm_gets_the_number_of_all_cpus(
    resources: dict[str, object], tasks: int | None, cpus: int | None
) -> None:
    job = described(FULL.model_copy(update={"resources": Resources.model_validate(resources)}))
    assert job is not None
    assert (job.get("tasks"), job.get("minimum_cpus")) == (tasks, cpus)
    assert downgrade_submission(job, 40).get("minimum_cpus") == cpus


def test_job_without_a_time_limit_has_none_in_slurm() -> None:
    request = FULL.model_copy(update={"time_limit_s": 3_650 * 86_400})
    assert "--time=UNLIMITED" in make_sbatch_arguments(request, accounting=True)
    job = described(request)
    assert job is not None
    assert job["time_limit"] == {"set": True, "infinite": True, "number": 0}
    assert downgrade_submission(job, 40)["time_limit"] == job["time_limit"]
    with pytest.raises(NotExpressible):
        downgrade_submission(job, 38)


def test_hold_start_time_and_least_time_have_fields() -> None:
    begin_at = datetime(2026, 1, 31, 20, tzinfo=UTC)
    changes = {"hold": True, "slurm": SlurmOptions(time_min=1_800, nice=7)}
    job = described(FULL.model_copy(update={**changes, "afterany": ("13",)}))
    assert job is not None
    assert job["dependency"] == "afterok:11:12,afterany:13"
    assert job["time_minimum"] == {"set": True, "infinite": False, "number": 30}
    old = downgrade_submission(job, 38)
    assert (old["hold"], old["nice"], old["time_minimum"]) == (True, 7, 30)
    later = described(FULL.model_copy(update={"begin_at": begin_at}))
    assert later is not None
    number = int(begin_at.timestamp())
    assert later["begin_time"] == {"set": True, "infinite": False, "number": number}
    with pytest.raises(NotExpressible):
        downgrade_submission(later, 38)


def test_nodes_and_switches_have_fields() -> None:
    changes: dict[str, object] = {
        "nodes": ("n3", "n4"),
        "exclude": ("n7",),
        "max_leaves": 2,
        "max_leaves_wait_s": 90,
        "slurm": SlurmOptions(exclude="n[8-9]"),
    }
    words = [*make_sbatch_arguments(FULL.model_copy(update=changes), accounting=True)]
    assert {"--nodelist=n3,n4", "--exclude=n[8-9],n7", "--switches=2@0-00:01:30"} <= {*words}
    job = described(FULL.model_copy(update=changes))
    assert job is not None
    assert job["required_nodes"] == ["n3", "n4"]
    assert job["excluded_nodes"] == ["n8", "n9", "n7"]
    assert job["required_switches"] == {"set": True, "infinite": False, "number": 2}
    assert job["wait_for_switch"] == 90
    with pytest.raises(NotExpressible):
        downgrade_submission(job, 38)
    job = described(FULL.model_copy(update={"max_leaves": 1}))
    assert job is not None
    assert job["required_switches"] == {"set": True, "infinite": False, "number": 1}
    assert "wait_for_switch" not in job


def test_unsupported_option_is_submitted_by_sbatch() -> None:
    mail = FULL.model_copy(update={"slurm": SlurmOptions(extra=("--mail-type=END",))})
    assert described(mail, "--mail-type") is None
    licences = FULL.model_copy(update={"slurm": SlurmOptions(licenses="matlab:1")})
    job = described(licences)
    assert job is not None
    assert job["licenses"] == "matlab:1"
    odd = FULL.model_copy(update={"slurm": SlurmOptions(signal="NONSENSE@120")})
    assert described(odd) is None
    warned = FULL.model_copy(update={"slurm": SlurmOptions(signal="USR1@120")})
    job = described(warned)
    assert job is not None
    assert job["kill_warning_signal"] == "USR1"
    assert job["kill_warning_delay"] == {"set": True, "infinite": False, "number": 120}
    assert job["kill_warning_flags"] == ["BATCH_JOB"]
    with pytest.raises(NotExpressible):
        downgrade_submission(job, 38)
    assert "argv" not in downgrade_submission({"argv": ["/opt/job.sh", "4"]}, 38)
    assert downgrade_submission({"argv": ["/opt/job.sh", "4"]}, 40) == {
        "argv": ["/opt/job.sh", "4"]
    }
    steps = described(
        FULL.model_copy(update={"slurm": SlurmOptions(signal="steps:USR1@120"), "max_requeues": 0})
    )
    assert steps is not None
    assert "kill_warning_flags" not in steps
    assert downgrade_submission(steps, 38)["signal"] == "USR1@120"


@given(st.lists(st.from_regex(r"--[a-z-]{1,20}(=[ -~]{0,20})?", fullmatch=True), max_size=4))
def test_an_option_is_said_or_left_to_sbatch(extra: list[str]) -> None:
    job = make_submission(extra, {})
    if job is not None:
        fields = {*job} - {"environment"}
        said = [option for option in extra if not option.startswith(("--parsable", "--export"))]
        assert len(fields) <= 3 * len(said)
        downgrade_submission({**job, "kill_warning_flags": []}, 40)


@pytest.mark.parametrize(("release", "version"), VERSIONS)
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("partition", "slurm.partition"),
        ("account", "project"),
        ("qos", "slurm.qos"),
        ("constraint", "slurm.constraint"),
        ("reservation", "slurm.reservation"),
        ("array", "array"),
    ],
)
async def test_a_refusal_names_the_field(release: str, version: int, name: str, field: str) -> None:
    status, body = answer(release, version, f"submit-{name}")
    client = RestClient(
        "http://slurm", transport=httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    )
    said = await client.send_request(
        "POST", f"/slurm/v0.0.{version}/job/submit", {}, body={}, timeout_s=5
    )
    assert classify_failed_submission(said) is SubmissionFailure.REFUSED
    assert command_errors.make_rejection(said.error_text, FULL).field == field
    await client.close()


@pytest.mark.parametrize(("release", "version"), VERSIONS)
async def test_a_refused_token_is_never_taken_for_a_refused_job(release: str, version: int) -> None:
    status, body = answer(release, version, "submit-refused")
    client = RestClient(
        "http://slurm", transport=httpx.MockTransport(lambda _: httpx.Response(status, json=body))
    )
    said = await client.send_request("POST", "/", {}, body={}, timeout_s=5)
    # 22.05 says "Zero Bytes were transmitted or received", as of a connection that broke.
    assert classify_failed_submission(said) is (
        SubmissionFailure.UNKNOWN if version == 38 else SubmissionFailure.AUTHENTICATION
    )
    await client.close()
