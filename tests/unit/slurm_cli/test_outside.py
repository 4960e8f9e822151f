"""Records of jobs that the platform did not submit, as squeue and sacct print them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from aitne.adapters.schedulers._slurm import job_comment, squeue_parser
from aitne.adapters.schedulers._slurm import outside_job_records as records
from aitne.cli.views.job_table import format_resources
from aitne.client.records import ResourcesRecord
from aitne.core.jobs.states import JobState
from aitne.core.ports.outside_jobs import MOST_OF_ACCOUNT

MARK = "\x1emark"
SUBMITTED, STARTED, ENDED = 1_795_633_730, 1_795_633_731, 1_795_633_791
RUNNING = {"State": "RUNNING", "NodeList": "n[1-2]", "StartTime": str(STARTED)}
PENDING = {"State": "PENDING", "Reason": "Priority"}


def line(number: int = 7, task: str | None = None, **values: str) -> str:
    """Return a line of squeue for a job of ada; ``task`` makes it one of an array."""
    row = {
        **dict.fromkeys(records.FIELDS, "N/A"),
        "Comment": "(null)",
        "JobArrayID": str(number) if task is None else f"{number}_{task}",
        "JobID": str(number),
        "ArrayTaskID": task or "N/A",
        "UserName": "ada",
        "Reason": "None",
        "NodeList": "",
        "SubmitTime": str(SUBMITTED),
        "TimeLimit": "1:00:00",
        "Name": "train",
        "Account": "vision",
        "NumNodes": "1",
        "NumCPUs": "1",
        "MinMemory": "100M",
        "tres-alloc": "cpu=1,mem=100M,node=1,billing=1",
        "Command": "/home/ada/job.sh",
        "WorkDir": "/home/ada",
        "BatchFlag": "1",
        "STDOUT": f"/home/ada/slurm-{number}.out",
        **values,
    }
    return squeue_parser.SEPARATOR.join(row[field] for field in records.FIELDS) + f"{MARK}\n"


def read(*lines: str, accounts: tuple[str, ...] = ("ada",)) -> list[records.OutsideJob]:
    return records.OutsideReader(records.FIELDS).read("".join(lines), MARK, accounts)


def test_record_of_a_running_job_names_what_slurm_reports() -> None:
    tres = {"NumNodes": "2", "NumCPUs": "8", "tres-alloc": "cpu=8,mem=4G,node=2,gres/gpu:h200=4"}
    [job] = read(line(**RUNNING, **tres))
    assert (job.scheduler_id, job.account, job.name, job.state) == (
        *("7", "ada", "train", JobState.RUNNING),
    )
    assert job.submitted_at == datetime.fromtimestamp(SUBMITTED, UTC)
    assert job.started_at == datetime.fromtimestamp(STARTED, UTC)
    assert (job.nodes, job.charged_account, job.time_limit_s) == (("n1", "n2"), "vision", 3_600)
    shares = job.resources
    assert (shares.nodes, shares.cpu, shares.memory_bytes) == (2, 4, 2 << 30)
    assert (shares.gpu.type, shares.gpu.count) == ("h200", 2)
    assert (job.command, job.workdir) == ("/home/ada/job.sh", "/home/ada")
    assert job.log is not None
    assert job.log.path == "/home/ada/slurm-7.out"


@pytest.mark.parametrize(
    ("values", "count", "gpu_type"),
    [
        ({"tres-per-node": "gres:gpu:2"}, 2, None),
        ({"tres-per-node": "gres/gpu:a100:2"}, 2, "a100"),
        ({"tres-per-node": "gpu:a100_1g.5gb:2"}, 2, "a100_1g.5gb"),
        ({"tres-per-node": "gpu::3,shard:4"}, 3, None),
        ({"tres-alloc": "cpu=4,gres/gpu=3,gres/gpu:1g.10gb+me=3"}, 3, "1g.10gb+me"),
        ({"tres-per-node": f"gres/gpu:{'x' * 41}:2"}, 2, "x" * 41),
        ({"tres-alloc": "cpu=4,gres/gpu:a100=2,gres/gpu:v100=1"}, 3, None),
    ],
)
def test_gpus_are_read_in_the_forms_of_each_release(
    values: dict[str, str], count: int, gpu_type: str | None
) -> None:
    [job] = read(line(7, **values))
    assert (job.resources.gpu.count, job.resources.gpu.type) == (count, gpu_type)


def test_job_with_all_memory_of_its_node_has_no_amount_of_it() -> None:
    [job] = read(line(7, **{"MinMemory": "0", "tres-alloc": "cpu=1,node=1"}))
    assert job.resources.memory_bytes == 0
    record = ResourcesRecord(job.resources.model_dump(mode="json"))
    assert format_resources(record) == f"{job.resources.cpu} cpu"


def test_jobs_of_the_platform_and_of_other_accounts_are_not_returned() -> None:
    ours = line(8, Comment=job_comment.make_comment(uuid4(), 1))
    assert [job.scheduler_id for job in read(line(7), ours, line(9, UserName="bob"))] == ["7"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/scratch/out-%j-%x-%u.txt", "/scratch/out-7-train-ada.txt"),
        ("logs/100%%-%A", "/home/ada/logs/100%-7"),
        ("/scratch/%5j-%J-%s-%n-%t-%q.txt", "/scratch/00007-7-batch-0-0-%q.txt"),
        ("/scratch/out-%a-%b.txt", "/scratch/out-4294967294-4.txt"),
        ("/scratch/100\\%-%j.txt", "/scratch/100%-%j.txt"),
        ("/scratch/out-%N.txt", None),
        ("/dev/null", None),
        ("(null)", None),
        ("", None),
    ],
)
def test_log_path_is_complete_or_unknown(path: str, expected: str | None) -> None:
    [job] = read(line(STDOUT=path, **PENDING))
    assert (None if job.log is None else job.log.path) == expected


def test_job_of_salloc_or_srun_has_no_log() -> None:
    [job] = read(line(BatchFlag="0", **RUNNING))
    assert job.log is None


def test_log_path_names_the_first_node_of_a_job_that_has_started() -> None:
    [job] = read(line(STDOUT="/scratch/out-%N.txt", **RUNNING))
    assert job.log is not None
    assert job.log.path == "/scratch/out-n1.txt"


@pytest.mark.parametrize(
    ("written", "pattern", "path"),
    [
        ("/home/ada/slurm-9.out", "/home/ada/slurm-7_%a.out", "/home/ada/slurm-7_3.out"),
        ("logs/%x_%A_%3a.log", "/home/ada/logs/train_7_%3a.log", "/home/ada/logs/train_7_003.log"),
        ("/s/100%%/%j-%N", "/s/100%%/%j-%N", "/s/100%/9-n1"),
        ("/s/%b-%r", "/s/%b-%r", "/s/3-2"),
        ("/s/100\\%a", "/s/100%%a", "/s/100%a"),
    ],
)
def test_logs_of_an_arrays_tasks_follow_from_one_pattern(
    written: str, pattern: str, path: str
) -> None:
    values = {"JobArrayID": "7_3", "ArrayTaskID": "3", "STDOUT": written}
    [job] = read(line(9, **RUNNING | values))
    assert job.log is not None
    assert job.log.path == pattern
    run = {"JobID": "9", "NodeList": "n[1-2]", "RestartCnt": "2"}
    assert records.log_of_task(pattern, 3, run) == path
    assert records.log_of_task(pattern, 3, {**run, "NodeList": ""}) is None


def test_name_of_a_job_adds_no_wildcards_to_its_logs() -> None:
    values = {"JobArrayID": "7_3", "ArrayTaskID": "3", "STDOUT": "/s/%x", "Name": "%a%"}
    [job] = read(line(9, **RUNNING | values))
    assert job.log is not None
    assert records.log_of_task(job.log.path, 3) == "/s/%a%"


def test_tasks_of_an_array_are_one_record_with_their_numbers() -> None:
    [job] = read(
        line(7, "4-99999%2", **PENDING),
        line(7, "2", **RUNNING),
        line(7, "3", **RUNNING),
        line(7, "0", State="COMPLETED", NodeList="n3", StartTime=str(STARTED - 5)),
        line(7, "1", State="FAILED", NodeList="n3", StartTime=str(STARTED)),
    )
    assert (job.state, job.ended_at) == (JobState.RUNNING, None)
    assert job.tasks == {"QUEUED": 99_996, "RUNNING": 2, "COMPLETED": 1, "FAILED": 1}
    assert job.nodes == ("n1", "n2", "n3")
    assert job.started_at == datetime.fromtimestamp(STARTED - 5, UTC)
    [small] = read(line(7, "2-9", **PENDING), line(7, "1", **RUNNING))
    assert small.array == "1-9"


def test_array_has_ended_when_no_task_is_live_and_with_the_worst_state() -> None:
    ended = {"NodeList": "n1", "StartTime": str(STARTED), "EndTime": str(ENDED)}
    [job] = read(line(7, "0", State="COMPLETED", **ended), line(7, "1", State="FAILED", **ended))
    assert (job.state, job.ended_at) == (JobState.FAILED, datetime.fromtimestamp(ENDED, UTC))


def test_text_of_users_cannot_forge_or_break_records() -> None:
    forged = line(8, Name=f"x{squeue_parser.SEPARATOR}y")
    odd = line(9, Name="a\x00b\nc" * 200)
    jobs = read(forged, odd, line(10, SubmitTime="N/A"), "rubbish" + MARK + "\n")
    assert [job.scheduler_id for job in jobs] == ["9"]
    assert jobs[0].name.isprintable()
    assert len(jobs[0].name) <= 200


def test_unchanged_record_is_the_same_object() -> None:
    reader = records.OutsideReader(records.FIELDS)
    first, _ = reader.read(line(7) + line(8), MARK, {"ada"})
    again, changed = reader.read(line(7) + line(8, Name="other"), MARK, {"ada"})
    assert again is first
    assert changed.name == "other"


def test_oldest_live_and_newest_ended_jobs_of_an_account_are_kept() -> None:
    number = MOST_OF_ACCOUNT + 50
    live = [line(100 + n, SubmitTime=str(SUBMITTED + n), **PENDING) for n in range(number)]
    end = {"State": "COMPLETED", "NodeList": "n1"}
    ended = [line(1_000 + n, EndTime=str(ENDED + n), **end) for n in range(number)]
    other = line(1, UserName="bob", SubmitTime=str(SUBMITTED + 9_999))
    jobs = read(*live, *ended, other, accounts=("ada", "bob"))
    kept = {job.scheduler_id for job in jobs}
    assert len(jobs) == 2 * MOST_OF_ACCOUNT + 1
    assert {"100", f"{1_000 + number - 1}", "1"} <= kept
    assert not kept & {f"{100 + number - 1}", "1000"}


def test_accounting_tells_the_end_of_jobs_and_of_whole_arrays() -> None:
    def row(number: str, state: str, end: str = str(ENDED), name: str = "train") -> str:
        values = (
            name,
            number,
            "ada",
            state,
            "1:0",
            "n1",
            str(SUBMITTED),
            str(STARTED),
            end,
            "None",
        )
        return squeue_parser.SEPARATOR.join(values)

    ours = job_comment.make_job_name(uuid4(), 1)
    output = "\n".join(
        [
            *(row("7_0", "COMPLETED"), row("7_1", "TIMEOUT"), row("8", "FAILED")),
            *(row("9_0", "COMPLETED"), row("9_1", "RUNNING", "Unknown"), row("10", "RUNNING")),
            # Written off by a slurmctld that began without its state, not cancelled by a user.
            *(row("12", "CANCELLED"), row("13", "CANCELLED by 1001")),
            *(row("11", "FAILED", name=ours), "rubbish"),
        ]
    )
    found = {
        job.scheduler_id: job
        for job in records.merge_records(records.parse_ended_outside_jobs(output))
    }
    states = {number: job.state for number, job in found.items()}
    assert states == {
        "7": "TIMED_OUT",
        "8": "FAILED",
        "9": "UNKNOWN",
        "10": "UNKNOWN",
        "12": "UNKNOWN",
        "13": "CANCELLED",
    }
    assert (found["8"].exit_code, found["8"].ended_at) == (1, datetime.fromtimestamp(ENDED, UTC))
