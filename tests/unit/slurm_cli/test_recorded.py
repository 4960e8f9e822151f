"""The answers that scripts/record_slurm.py took down, read with the parsers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from aitne.adapters.schedulers._slurm import (
    command_errors,
    sacct_parser,
    scontrol_parser,
    squeue_parser,
)
from aitne.adapters.schedulers._slurm.partition_limit_check import ClusterLimits
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.adapters.schedulers._slurm.submission_failure import SubmissionFailure
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Cluster, Holder, NodeState
from aitne.core.models.common_job_fields import SlurmOptions
from aitne.core.models.resources import GpuRequest, Resources
from aitne.core.ports.scheduler import SchedulerJob
from tests.support.jobs import make_request

ASSETS = Path(__file__).parents[2] / "assets" / "slurm"
FOLDERS = sorted(ASSETS.glob("*/cli"))
MARK = "\x1e0123456789abcdef"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.parent.name)
def folder(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


def said(folder: Path, name: str) -> str:
    return (folder / f"{name}.txt").read_text(encoding="utf-8")


def by_job(jobs: list[SchedulerJob]) -> dict[tuple[int, int | None], SchedulerJob]:
    """Return the records by the number of the recorded job and the task."""
    return {(job.job_id.int & 0xFF, job.array_task_id): job for job in jobs}


def test_both_releases_are_recorded() -> None:
    assert [folder.parent.name for folder in FOLDERS] == ["22.05", "24.11"]


def test_the_queue(folder: Path) -> None:
    jobs = by_job(
        squeue_parser.SqueueReader(squeue_parser.FIELDS).read(said(folder, "squeue"), MARK)
    )
    s, r = JobState, TerminationReason
    assert {key: (job.state, job.reason) for key, job in jobs.items()} == {
        (1, None): (s.COMPLETED, r.COMPLETED),
        (2, None): (s.FAILED, r.FAILED),
        (3, None): (s.FAILED, r.FAILED),
        (4, 0): (s.COMPLETED, r.COMPLETED),
        (4, 1): (s.RUNNING, None),
        (4, 2): (s.QUEUED, None),
        (4, 3): (s.QUEUED, None),
        (5, None): (s.RUNNING, None),
        (6, None): (s.QUEUED, None),
        (7, None): (s.CANCELLED, r.CANCELLED),
        (8, None): (s.QUEUED, None),
        (9, None): (s.CANCELLED, r.DEPENDENCY_FAILED),
    }
    assert (jobs[1, None].exit_code, jobs[1, None].signal) == (0, None)
    assert (jobs[2, None].exit_code, jobs[2, None].signal) == (7, None)
    assert (jobs[3, None].exit_code, jobs[3, None].signal) == (None, 11)
    assert jobs[4, 2].scheduler_id.endswith("_2")
    assert jobs[4, 2].pending_reason == "Waits for its array: no more tasks of it may run at once."
    assert jobs[5, None].nodes == ("n1", "n2")
    assert jobs[5, None].started_at is not None
    assert jobs[5, None].ended_at is None
    assert jobs[6, None].pending_reason == "Held by its owner. It can start after it is released."
    assert jobs[7, None].started_at is None
    running = jobs[5, None].scheduler_id
    assert jobs[8, None].pending_reason == f"Waits for job {running} to complete."
    for job in jobs.values():
        assert (job.account, job.attempt, job.partition) == ("alice", 1, "gpu")
        assert (job.time_limit_s, job.restart_count) == (3_600, 0)
        assert job.submitted_at is not None
        assert SchedulerJob.model_validate_json(job.model_dump_json()) == job


def test_an_unchanged_record_is_the_same_object(folder: Path) -> None:
    jobs = squeue_parser.SqueueReader(squeue_parser.FIELDS)
    first = jobs.read(said(folder, "squeue"), MARK)
    again = jobs.read(said(folder, "squeue").replace(MARK, "\x1eother"), "\x1eother")
    assert [id(job) for job in first] == [id(job) for job in again]
    changed = jobs.read(said(folder, "squeue").replace("RUNNING", "COMPLETING"), MARK)
    kept = {id(job) for job in first} & {id(job) for job in changed}
    assert len(kept) == len(first) - 2


def test_accounting(folder: Path) -> None:
    jobs = by_job(sacct_parser.parse_ended_jobs(said(folder, "sacct")))
    assert {(1, None), (2, None), (3, None), (4, 0)} <= set(jobs)
    assert (5, None) not in jobs  # it runs: accounting proves nothing about that
    assert jobs[2, None].exit_code == 7
    assert jobs[3, None].signal == 11
    assert jobs[1, None].time_limit_s == 3_600
    assert {job.account for job in jobs.values()} == {"alice"}


def test_the_cluster(folder: Path) -> None:
    found = {
        node.name: node for node in scontrol_parser.parse_nodes(said(folder, "nodes"), "c", NOW)
    }
    assert set(found) == {"n1", "n2", "n3", "n4"}
    assert found["n1"].state is NodeState.MIXED
    assert found["n3"].state is NodeState.IDLE
    assert found["n4"].state is NodeState.DRAINED
    assert (found["n4"].reason or "").startswith("its fan is loud [root@")
    assert [(gpu.type, gpu.total, gpu.used) for gpu in found["n1"].gpus] == [("h200", 4, 1)]
    assert found["n1"].memory_total_bytes == 16_000 << 20
    assert found["n1"].address == "127.0.0.1"
    assert found["n1"].partitions == ("gpu", "debug")
    assert {name.partition(":")[0] for name in (gres.name for gres in found["n1"].gres)} == {
        "shard"
    }
    partitions = {
        each.name: each for each in scontrol_parser.parse_partitions(said(folder, "partitions"))
    }
    assert partitions["gpu"].default
    assert partitions["gpu"].max_time_s == 7 * 86_400
    assert partitions["gpu"].allow_accounts is None
    assert partitions["debug"].nodes == ("n1", "n2")
    assert scontrol_parser.parse_reservations(said(folder, "reservations")) == ()


def test_the_configuration(folder: Path) -> None:
    config = SlurmConfig.parse(said(folder, "config"))
    assert config.release.startswith(folder.parent.name)
    assert (config.accounting, config.max_array_size, config.slurm_user) == (True, 10_001, "slurm")
    assert "jobs" in config.private
    assert "limits" in config.enforces
    assert config.stores == {"job_comment"}
    assert (config.memory_held_by, config.cpus_held_by) == (Holder.NOBODY, Holder.NOBODY)
    assert config.message_timeout_s == 10.0
    assert not list(config.list_notes(sees_all=True, account="x"))
    assert "PrivateData" in next(config.list_notes(sees_all=False, account="x"))


FIELDS = {
    "account": "project",
    "array": "array",
    "constraint": "slurm.constraint",
    "gres": "resources.gres",
    "memory": "resources.memory",
    "option": "slurm.extra",
    "partition": "slurm.partition",
    "qos": "slurm.qos",
    "reservation": "slurm.reservation",
    "signal": "slurm.signal",
}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_refusals_name_the_field(folder: Path, name: str) -> None:
    _, _, words = said(folder, f"sbatch-{name}").partition("\n")
    assert command_errors.parse_submission_failure(words) is SubmissionFailure.REFUSED
    asked = make_request(resources=Resources(gres={"nope": 1}))
    refused = command_errors.make_rejection(words, asked)
    assert refused.field == FIELDS[name]
    assert "Slurm says: " in str(refused)


def test_a_forecast(folder: Path) -> None:
    forecast = command_errors.parse_forecast(said(folder, "sbatch-test-only"))
    assert forecast.starts_at is not None
    assert forecast.partition == "gpu"
    assert len(forecast.nodes) == 2


def test_limits_say_what_slurm_does_not(folder: Path) -> None:
    cluster = Cluster(
        nodes=scontrol_parser.parse_nodes(said(folder, "nodes"), "c", NOW),
        partitions=scontrol_parser.parse_partitions(said(folder, "partitions")),
    )
    limits = ClusterLimits(cluster, {"normal": frozenset()})
    four, five = GpuRequest(count=4), GpuRequest(count=5)
    assert limits.find_rejection(make_request(resources=Resources(gpu=four, nodes=4))) is None
    refused = limits.find_rejection(make_request(resources=Resources(gpu=five)))
    assert refused is not None
    assert refused.field == "resources.gpu"
    debug = SlurmOptions(partition="debug")
    assert limits.find_rejection(make_request(slurm=debug, time_limit_s=1_801)) is not None
    # Two partitions: one that takes it is enough.
    either = SlurmOptions(partition="debug,gpu")
    assert limits.find_rejection(make_request(slurm=either, time_limit_s=1_801)) is None
    # A QOS that lifts the partition's limits, or might: Slurm has to say.
    lifts = ClusterLimits(cluster, {"long": frozenset({"PartitionTimeLimit"})})
    assert lifts.find_rejection(make_request(slurm=debug, time_limit_s=1_801)) is None
    assert (
        ClusterLimits(cluster, None).find_rejection(make_request(slurm=debug, time_limit_s=1_801))
        is None
    )
    assert limits.find_rejection(make_request(slurm=SlurmOptions(partition="nope"))) is None
    # shard is on some nodes alone: a job on three of them is too wide, one on two is not.
    shards = {"shard": 1}
    assert limits.find_rejection(make_request(resources=Resources(nodes=2, gres=shards))) is None
    wide = limits.find_rejection(make_request(resources=Resources(nodes=3, gres=shards)))
    assert wide is not None
    assert wide.field == "resources"


def test_the_uuid_is_the_identity(folder: Path) -> None:
    text = said(folder, "squeue")
    other = text.replace("aitne:00000000", "other:00000000")
    assert not squeue_parser.SqueueReader(squeue_parser.FIELDS).read(other, MARK)
    assert {
        job.job_id for job in squeue_parser.SqueueReader(squeue_parser.FIELDS).read(text, MARK)
    } == {UUID(f"00000000-0000-4000-8000-{number:012}") for number in range(1, 10)}
