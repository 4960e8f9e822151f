"""Tests of the parsers with any text that Slurm, a site or another user may write."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.schedulers._slurm import (
    command_errors,
    sacct_parser,
    scontrol_parser,
    squeue_parser,
    times,
)
from aitne.adapters.schedulers._slurm.job_comment import (
    make_comment,
    make_job_name,
    parse_comment,
    parse_job_name,
)
from aitne.adapters.schedulers._slurm.job_states import job_state
from aitne.adapters.schedulers._slurm.pending_reasons import format_pending_reason
from aitne.adapters.schedulers._slurm.slurm_config import SlurmConfig
from aitne.adapters.schedulers._slurm.squeue_parser import (
    FIELDS,
    SEPARATOR,
    SqueueReader,
    parse_record,
)
from aitne.adapters.schedulers._slurm.submission_failure import SubmissionFailure
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.cluster import Holder, NodeState

WORDS = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "COMPLETING",
    "CONFIGURING",
    "RESIZING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "STOPPED",
    "REVOKED",
    "RESV_DEL_HOLD",
    "SIGNALING",
    "STAGE_OUT",
]
MARK = squeue_parser.new_mark()
text = st.text(max_size=60)
MARKED = st.text(st.sampled_from(f"aitne:-_1,[]()\n|{SEPARATOR}\x1e0f "), max_size=200)


@pytest.mark.parametrize("word", WORDS)
def test_every_state_of_slurm_is_known(word: str) -> None:
    state, reason = job_state((word,))
    assert (state is JobState.UNKNOWN) == (word == "REVOKED")
    assert (reason is not None) == state.is_terminal


@given(st.lists(text))
def test_a_word_that_nobody_knows_is_never_an_end(words: list[str]) -> None:
    if not {word.partition(" ")[0].upper() for word in words} & {*WORDS, "POWER_UP_NODE"}:
        assert job_state(words) == (JobState.UNKNOWN, None)


@pytest.mark.parametrize(
    ("words", "reason", "begun", "signal", "state", "why"),
    [
        (["COMPLETED", "COMPLETING"], "None", True, None, JobState.COMPLETING, None),
        (["RUNNING", "COMPLETED"], "None", True, None, JobState.UNKNOWN, None),
        (["CANCELLED by 1001"], "None", True, None, JobState.CANCELLED, "cancelled"),
        (["CANCELLED"], "DependencyNeverSatisfied", False, None, JobState.CANCELLED, "dependency_failed"),
        (["FAILED"], "BadConstraints", False, None, JobState.FAILED, "rejected"),
        (["FAILED"], "JobLaunchFailure", True, None, JobState.FAILED, "start_failed"),
        (["FAILED"], "JobLaunchFailure", True, 11, JobState.FAILED, "failed"),
        (["FAILED"], "RaisedSignal:53(Real-time signal 19)", True, None, JobState.FAILED, "start_failed"),
        (["FAILED"], "NonZeroExitCode", True, None, JobState.FAILED, "failed"),
        (["BOOT_FAIL"], "None", False, None, JobState.NODE_FAILED, "node_failed"),
        (["DEADLINE"], "DeadLine", False, None, JobState.TIMED_OUT, "timed_out"),
    ],
)  # fmt: skip
def test_why_it_ended(
    words: list[str], reason: str, begun: bool, signal: int | None, state: JobState, why: str | None
) -> None:
    found = job_state(words, reason, begun=begun, signal=signal)
    assert found == (state, None if why is None else TerminationReason(why))


@given(text, text)
def test_every_reason_is_a_sentence(reason: str, dependency: str) -> None:
    assert format_pending_reason(reason, dependency).strip().endswith(".")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("QOSMaxGRESPerUser", "its QOS has reached its limit of GPUs"),
        ("AssocGrpGRES", "its project has reached its limit of GPUs"),
        ("AssocMaxWallDurationPerJobLimit", "Asks for more (time"),
        ("QOSGrpCPURunMinutesLimit", "CPUs multiplied by time"),
        ("MaxSubmitJobsPerAccount", "jobs in the queue"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2],n4", "down, drained or reserved: n[1-2],n4."),
        ("(Resources)", "Waits for nodes"),
        ("launch failed requeued held", "site's support"),
        ("SomethingNew", "Slurm says: SomethingNew."),
    ],
)
def test_reasons_in_plain_words(reason: str, words: str) -> None:
    assert words in format_pending_reason(reason)


@pytest.mark.parametrize(
    ("written", "code", "signal"),
    [
        ("0", 0, None), ("1792", 7, None), ("11", None, 11), ("139", None, 11), ("125", None, None),
        ("0:0", 0, None), ("7:0", 7, None), ("0:9", None, 9), ("0:125", None, None),
        ("0:53", None, None), ("", None, None), ("x", None, None),
    ],
)  # fmt: skip
def test_exit_statuses(written: str, code: int | None, signal: int | None) -> None:
    assert times.parse_exit(written) == (code, signal)


@given(text)
def test_times_and_limits_never_fail(written: str) -> None:
    times.parse_time(written)
    times.parse_limit(written)
    times.parse_minutes(written)
    times.parse_exit(written)


@given(st.integers(1, 4_000_000_000))
def test_times_come_back(seconds: int) -> None:
    assert times.parse_time(str(seconds)) == datetime.fromtimestamp(seconds, UTC)


@given(st.uuids(), st.integers(1, 999_999_999))
def test_identity_comes_back(job_id: UUID, attempt: int) -> None:
    assert parse_comment(make_comment(job_id, attempt)) == (job_id, attempt)
    assert parse_job_name(make_job_name(job_id, attempt)) == (job_id, attempt)


@given(st.uuids(), text)
def test_a_comment_with_anything_more_is_not_ours(job_id: UUID, more: str) -> None:
    comment = make_comment(job_id, 1)
    for other in (f"{comment}{more}", f"{more}{comment}"):
        if more and not (more.isascii() and more.isdigit()):
            assert parse_comment(other) is None


def record(comment: str, **fields: str) -> str:
    values = {
        **dict.fromkeys(FIELDS, "1"),
        "Comment": comment,
        "State": "PENDING",
        "NodeList": "",
        **fields,
    }
    return SEPARATOR.join(values[field] for field in FIELDS)


@given(st.lists(MARKED), st.uuids())
def test_foreign_text_in_queue_output_is_not_read_as_job(others: list[str], job_id: UUID) -> None:
    """Text of other users stays between the marks, with any separators and newlines."""
    forged = record(make_comment(job_id, 1))
    lines = [record(f"{other}\n{forged}\n") for other in others]
    lines.insert(len(lines) // 2, record(make_comment(UUID(int=7), 2)))
    output = "".join(f"{line}{MARK}\n" for line in lines)
    found = SqueueReader(FIELDS).read(output, MARK)
    assert [(job.job_id, job.attempt) for job in found] == [(UUID(int=7), 2)]


@given(st.uuids(), st.dictionaries(st.sampled_from(FIELDS[1:]), text))
def test_no_field_of_ours_breaks_the_poll(job_id: UUID, fields: dict[str, str]) -> None:
    line = record(make_comment(job_id, 1), **fields)
    job = parse_record(line, FIELDS)
    if SEPARATOR not in "".join(fields.values()):
        assert job is not None
        assert job.job_id == job_id


@pytest.mark.parametrize(
    ("number", "tasks", "scheduler_id", "one", "several"),
    [
        ("12", "N/A", "12", None, None),
        ("12_4", "4", "12_4", 4, None),
        ("12_[7]", "7", "12_7", 7, None),
        ("12_[0-8:2,20%3]", "0-8:2,20%3", "12", None, "0-8:2,20"),
    ],
)
def test_waiting_tasks_of_an_array_have_one_record(
    number: str, tasks: str, scheduler_id: str, one: int | None, several: str | None
) -> None:
    line = record(make_comment(UUID(int=7), 1), JobArrayID=number, ArrayTaskID=tasks)
    job = parse_record(line, FIELDS)
    assert job is not None
    assert (job.scheduler_id, job.array_task_id, job.array_task_ids) == (scheduler_id, one, several)


@given(MARKED)
def test_answers_of_any_shape_are_read_or_left(output: str) -> None:
    SqueueReader(FIELDS).read(output, MARK)
    sacct_parser.parse_ended_jobs(output)
    scontrol_parser.parse_nodes(f"NodeName={output}", "c", datetime.now(UTC))
    scontrol_parser.parse_partitions(f"PartitionName={output}")
    scontrol_parser.parse_reservations(f"ReservationName={output}")
    scontrol_parser.gres_counts(output)
    SlurmConfig.parse(output)
    command_errors.parse_forecast(output)


@pytest.mark.parametrize("typo", ["", " a"])  # 26.05 writes "at 1795271271 a using"
def test_the_start_that_a_forecast_tells(typo: str) -> None:
    using = "using 2 processors on nodes n[1-2] in partition gpu"
    forecast = command_errors.parse_forecast(
        f"sbatch: Job 1 to start at 1795271271{typo} {using}\n"
    )
    assert forecast.starts_at is not None
    assert forecast.starts_at.timestamp() == 1795271271
    assert (forecast.nodes, forecast.partition) == (("n1", "n2"), "gpu")


def test_accounting_counts_restarts_and_splits_arrays() -> None:
    job_id = uuid4()

    def line(
        number: str,
        state: str,
        submit: int,
        node: str = "n1",
        reason: str = "None",
        end: str = "300",
        raw: str = "",
    ) -> str:
        values = dict.fromkeys(sacct_parser.FIELDS, "") | {"End": end, "JobIDRaw": raw or number}
        values |= {
            "JobName": make_job_name(job_id, 1),
            "JobID": number,
            "State": state,
        }
        values |= {"Submit": str(submit), "NodeList": node, "User": "ada", "Reason": reason}
        return SEPARATOR.join(values[field] for field in sacct_parser.FIELDS)

    output = "\n".join(
        [
            line("4", "NODE_FAIL", 100),
            line("4", "COMPLETED", 200),
            line("7_[0-2,5%1]", "CANCELLED by 0", 100, "None assigned"),
            line("8", "RUNNING", 100),
            line("9", "CANCELLED", 100, "None assigned"),  # a slurmctld without its state says so
            line("10", "CANCELLED", 100),  # and of those that ran
            line("16", "CANCELLED by 1001", 100),
            line("11", "CANCELLED", 100, "None assigned", "Resources"),
            line("12", "CANCELLED", 100, "None assigned", "Dependency"),
            line("13", "FAILED", 100, end="Unknown"),  # slurmdbd does not have its exit code yet
            line("14_1", "COMPLETED", 100, raw="15"),
            line("14_2", "COMPLETED", 100, raw="14"),
        ]
    )
    found = {job.scheduler_id: job for job in sacct_parser.parse_ended_jobs(output)}
    assert set(found) == {"4", "7_0", "7_1", "7_2", "7_5", "12", "14_1", "14_2", "16"}
    assert {number for number, job in found.items() if job.is_last_task} == {"14_2"}
    assert (found["4"].state, found["4"].restart_count) == (JobState.COMPLETED, 1)
    assert (found["7_5"].state, found["7_5"].array_task_id) == (JobState.CANCELLED, 5)


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("IDLE", NodeState.IDLE), ("MIXED", NodeState.MIXED), ("ALLOCATED", NodeState.ALLOCATED),
        ("IDLE+DRAIN", NodeState.DRAINED), ("MIXED+DRAIN", NodeState.DRAINING),
        ("ALLOCATED+DRAIN", NodeState.DRAINING), ("DOWN*", NodeState.DOWN),
        ("DOWN+DRAIN", NodeState.DOWN), ("IDLE*", NodeState.DOWN),
        ("IDLE+NOT_RESPONDING", NodeState.DOWN), ("MIXED+CLOUD", NodeState.MIXED),
        ("IDLE+CLOUD+POWERED_DOWN", NodeState.POWERED_OFF),
        ("IDLE+CLOUD+POWERING_UP+NOT_RESPONDING", NodeState.POWERED_OFF),
        ("ALLOCATED+CLOUD+POWERING_UP", NodeState.ALLOCATED),
        ("IDLE+MAINT", NodeState.RESERVED), ("IDLE+RESERVED", NodeState.RESERVED),
        ("IDLE+PLANNED", NodeState.IDLE), ("IDLE+COMPLETING", NodeState.MIXED),
        ("IDLE+FAIL", NodeState.DRAINED), ("IDLE+INVALID_REG", NodeState.DOWN),
        ("UNKNOWN", NodeState.UNKNOWN), ("FUTURE", NodeState.UNKNOWN), ("SOMETHING", NodeState.UNKNOWN),
    ],
)  # fmt: skip
def test_node_states(word: str, state: NodeState) -> None:
    assert scontrol_parser.node_state(word.split("+")) is state


@pytest.mark.parametrize(
    ("written", "power_w"),
    [
        ("CurrentWatts=1234 AveWatts=9", 1230),
        ("CurrentWatts=0", None),
        ("CurrentWatts=4294967294", None),
        ("CurrentWatts=n/a", None),
    ],
)
def test_a_nodes_power_is_known_where_a_plugin_measures_it(
    written: str, power_w: int | None
) -> None:
    line = f"NodeName=n1 CPUTot=8 State=IDLE {written} ExtSensorsWatts=7"
    (node,) = scontrol_parser.parse_nodes(line, "c", datetime.now(UTC))
    assert node.power_w == power_w


def test_a_nodes_reason_does_not_change_its_facts() -> None:
    line = "NodeName=n1 CPUTot=8 State=IDLE+DRAIN Partitions=gpu Reason=State=IDLE CPUTot=99 [x]"
    (node,) = scontrol_parser.parse_nodes(f"{line}\nNodeName", "c", datetime.now(UTC))
    assert (node.cpu_total, node.state) == (8, NodeState.DRAINED)
    assert node.reason == "State=IDLE CPUTot=99 [x]"


def test_types_of_gpus_may_have_spaces() -> None:
    line = (
        "NodeName=n1 CPUTot=8 State=MIXED Gres=gpu:NVIDIA A100:4(S:0-1) "
        "GresUsed=gpu:NVIDIA A100:1(IDX:2) AllocTRES=cpu=2,mem=8G,gres/gpu:NVIDIA A100=1 Weight=1"
    )
    (node,) = scontrol_parser.parse_nodes(line, "c", datetime.now(UTC))
    assert [(gpu.type, gpu.total, gpu.used) for gpu in node.gpus] == [("NVIDIA A100", 4, 1)]


@pytest.mark.parametrize(
    ("written", "counts"),
    [
        ("gpu:h200:4(S:0-1),shard:16", {("gpu", "h200"): 4, ("shard", None): 16}),
        ("gpu:2(IDX:0,3)", {("gpu", None): 2}),
        ("gpu:1g.10gb:7,gpu:a100:1", {("gpu", "1g.10gb"): 7, ("gpu", "a100"): 1}),
        ("bandwidth:lustre:no_consume:4K", {("bandwidth", "lustre"): 4096}),
        ("gpu", {("gpu", None): 1}),
        ("(null)", {}),
        ("", {}),
    ],
)
def test_gres(written: str, counts: dict[tuple[str, str | None], int]) -> None:
    assert scontrol_parser.gres_counts(written) == counts


FAILED = "sbatch: error: Batch job submission failed: "


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        (
            f"{FAILED}Unable to contact slurm controller (connect failure)",
            SubmissionFailure.NOT_NOW,
        ),
        (f"{FAILED}Unable to contact slurm controller (send failure)", SubmissionFailure.UNKNOWN),
        (
            f"{FAILED}Unable to contact slurm controller (receive failure)",
            SubmissionFailure.UNKNOWN,
        ),
        (f"{FAILED}Socket timed out on send/recv operation", SubmissionFailure.UNKNOWN),
        (f"{FAILED}Zero Bytes were transmitted or received", SubmissionFailure.UNKNOWN),
        (f"{FAILED}Connection refused", SubmissionFailure.NOT_NOW),
        (f"{FAILED}Connection reset by peer", SubmissionFailure.UNKNOWN),
        (f"{FAILED}Slurm backup controller in standby mode", SubmissionFailure.NOT_NOW),
        (f"{FAILED}Protocol authentication error", SubmissionFailure.AUTHENTICATION),
        (f"{FAILED}I/O error writing script/environment to file", SubmissionFailure.NOT_NOW),
        (f"{FAILED}Invalid partition name specified", SubmissionFailure.REFUSED),
        (
            f"{FAILED}Requested time limit is invalid (missing or exceeds some limit)",
            SubmissionFailure.REFUSED,
        ),
        ("sbatch: fatal: Could not establish a configuration source", SubmissionFailure.NOT_NOW),
        ("sbatch: error: Invalid --signal specification", SubmissionFailure.REFUSED),
        ("allocation failure: Invalid partition name specified", SubmissionFailure.REFUSED),
    ],
)
def test_failed_submission_message_says_whether_slurm_has_the_job(
    words: str, failure: SubmissionFailure
) -> None:
    assert command_errors.parse_submission_failure(words) is failure


@pytest.mark.parametrize(
    ("output", "number"),
    [("12\n", "12"), ("12;dev\n", "12"), ("", None), ("0", None), ("Submitted 12", None), ("1\n2", None)],
)  # fmt: skip
def test_ids(output: str, number: str | None) -> None:
    assert command_errors.parse_job_id(output) == number


@pytest.mark.parametrize(
    ("said", "memory", "cpus"),
    [
        ("", Holder.NOBODY, Holder.NOBODY),
        ("TaskPlugin = (null)", Holder.NOBODY, Holder.NOBODY),
        (
            "TaskPlugin = task/cgroup,task/affinity\nConstrainCores = yes\nConstrainRAMSpace = yes",
            Holder.CGROUP,
            Holder.CGROUP,
        ),
        (
            "TaskPlugin = task/affinity,task/cgroup\nConstrainCores = no\nConstrainRAMSpace = no",
            Holder.NOBODY,
            Holder.BINDING,
        ),
        # cgroup.conf may constrain what no plugin looks at.
        ("TaskPlugin = task/none\nConstrainRAMSpace = yes", Holder.NOBODY, Holder.NOBODY),
        (
            "JobAcctGatherType = jobacct_gather/linux\n"
            "JobAcctGatherParams = UsePss,OverMemoryKill\nTaskPlugin = task/none",
            Holder.SAMPLING,
            Holder.NOBODY,
        ),
        (
            "JobAcctGatherType = (null)\nJobAcctGatherParams = OverMemoryKill",
            Holder.NOBODY,
            Holder.NOBODY,
        ),
    ],
)
def test_enforcement_of_limits_is_read_from_slurm_conf(
    said: str, memory: Holder, cpus: Holder
) -> None:
    config = SlurmConfig.parse(said)
    assert (config.memory_held_by, config.cpus_held_by) == (memory, cpus)
