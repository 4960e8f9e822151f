"""Explanations of failures, from logs as programs write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.core.jobs.error_patterns import FailureCause, find_error
from aitne.core.jobs.failure_explanation import explain_failure, suggest_changes
from aitne.core.jobs.log_lines import MOST_IN_LINE, split_log_lines
from aitne.core.jobs.states import JobState, TerminationReason
from aitne.core.models.job import Job
from tests.support.jobs import CREATED_AT, make_job

C = FailureCause
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
LOGS: list[tuple[C, int, str, str, str]] = [
    # Cause, exit code, log, the line that is quoted, a part of the sentence.
    (
        C.COMMAND_NOT_FOUND,
        127,
        "bash: line 1: nvidia-smi-typo: command not found\n",
        "bash: line 1: nvidia-smi-typo: command not found",
        "The command nvidia-smi-typo was not found",
    ),
    (C.COMMAND_NOT_FOUND, 127, "sh: 1: foo: not found\n", "sh: 1: foo: not found", "command foo "),
    (C.COMMAND_NOT_FOUND, 127, "", "", "A command was not found (exit code 127)"),
    (
        C.PERMISSION_DENIED,
        126,
        "bash: ./run.sh: Permission denied\n",
        "bash: ./run.sh: Permission denied",
        "Access to ./run.sh was denied",
    ),
    (C.NOT_EXECUTABLE, 126, "starts\n", "", "could not be executed (exit code 126)"),
    (
        C.MODULE_NOT_FOUND,
        1,
        f"epoch 1\n{TRACEBACK}ModuleNotFoundError: No module named 'torchvision'\n",
        "ModuleNotFoundError: No module named 'torchvision'",
        "The Python module torchvision is not installed",
    ),
    (
        C.ENVIRONMENT_CHANGED,
        1,
        "The environment of sessions was changed: No module named 'jupyterlab'\n",
        "The environment of sessions was changed: No module named 'jupyterlab'",
        "`aitne down` and `aitne up` repair it",
    ),
    (
        C.IMPORT_FAILED,
        1,
        f"{TRACEBACK}ImportError: cannot import name 'amp' from 'torch' (/x/torch/__init__.py)\n",
        "ImportError: cannot import name 'amp' from 'torch' (/x/torch/__init__.py)",
        "versions of the installed packages",
    ),
    (
        C.LIBRARY_NOT_FOUND,
        1,
        f"{TRACEBACK}ImportError: libcudart.so.11.0: cannot open shared object file: "
        "No such file or directory\n",
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "The shared library libcudart.so.11.0 was not found",
    ),
    (
        C.FILE_NOT_FOUND,
        1,
        f"{TRACEBACK}FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'\n",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'",
        "data/train.csv does not exist",
    ),
    (
        C.FILE_NOT_FOUND,
        2,
        "python: can't open file '/home/ada/train.py': [Errno 2] No such file or directory\n",
        "python: can't open file '/home/ada/train.py': [Errno 2] No such file or directory",
        "/home/ada/train.py does not exist",
    ),
    (
        C.GPU_OUT_OF_MEMORY,
        1,
        f"{TRACEBACK}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "srun: error: node01: task 0: Exited with exit code 1\n",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "A GPU ran out of memory",
    ),
    (
        C.GPU_OUT_OF_MEMORY,
        1,
        f"[rank1]: {TRACEBACK}[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried\n"
        "E1125 10:00:00.000 1 torch/distributed/elastic] failed (exitcode: 1)\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried",
        "A GPU ran out of memory",
    ),
    (
        C.QUOTA_EXCEEDED,
        1,
        f"{TRACEBACK}OSError: [Errno 122] Disk quota exceeded: 'model.pt'\n",
        "OSError: [Errno 122] Disk quota exceeded: 'model.pt'",
        "quota is used up",
    ),
    (
        C.DISK_FULL,
        1,
        "cp: error writing '/tmp/x': No space left on device\n",
        "cp: error writing '/tmp/x': No space left on device",
        "No space is left",
    ),
    (
        C.OUT_OF_MEMORY,
        137,
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks "
        "have been OOM Killed.\n",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.batch. Some of the step tasks "
        "have been OOM Killed.",
        "more memory than the 1 GiB that it had requested",
    ),
    (C.OUT_OF_MEMORY, 1, f"{TRACEBACK}MemoryError\n", "MemoryError", "more memory than the 1 GiB"),
    (C.KILLED, 137, "epoch 3\n", "", "signal 9 (SIGKILL)"),
    (
        C.CRASHED,
        139,
        "x.sh: line 2: 71 Segmentation fault      (core dumped) ./solver\n",
        "x.sh: line 2: 71 Segmentation fault      (core dumped) ./solver",
        "segmentation fault (signal 11, SIGSEGV)",
    ),
    (C.TERMINATED, 143, "Terminated\n", "", "signal 15 (SIGTERM)"),
    (C.SIGNAL, 134, "", "", "signal 6 (SIGABRT)"),
    (
        C.ERROR,
        1,
        # The first error was handled; its cause must not be blamed for the end.
        "ModuleNotFoundError: No module named 'apex'\nfalls back to torch.optim\n"
        f"{TRACEBACK}ValueError: mat1 and mat2 shapes cannot be multiplied\n"
        "subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.\n",
        "ValueError: mat1 and mat2 shapes cannot be multiplied",
        "The program ended with exit code 1.",
    ),
    (
        C.ERROR,
        1,
        "\x1b[31mERROR\x1b[0m: config has no key lr\n",
        "ERROR: config has no key lr",
        "exit code 1.",
    ),
    (C.ERROR, 3, "epoch 1\nerror: 0.12\ndone\n", "", "The program ended with exit code 3."),
]


def failed(code: int, **fields: Any) -> Job:
    values = {
        "state": JobState.FAILED,
        "reason": TerminationReason.FAILED,
        "exit_code": code,
        "message": f"The program ended with exit code {code}.",
        **fields,
    }
    return make_job(**values)


@pytest.mark.parametrize(("cause", "code", "log", "quoted", "sentence"), LOGS)
def test_failure_is_explained_with_its_line(
    cause: C, code: int, log: str, quoted: str, sentence: str
) -> None:
    # What came before must not matter.
    data = b"import works: /x/y: No such file or directory\n" + b"step\n" * 30 + log.encode()
    failure = explain_failure(failed(code), split_log_lines(data, 0))
    assert failure is not None
    assert (failure.cause, sentence in failure.text) == (cause, True), failure.text
    assert (failure.line.text if failure.line else "") == quoted
    assert failure.text.count(". ") == 0, "one sentence"
    if failure.line is not None:
        assert split_log_lines(data[failure.line.offset :], 0)[0].text == quoted


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.CANCELLED, JobState.RUNNING])
def test_job_that_has_not_failed_has_no_explanation(state: JobState) -> None:
    assert explain_failure(make_job(state=state), split_log_lines(b"ERROR: x\n", 0)) is None


def test_reason_of_the_platform_comes_before_the_log() -> None:
    job = failed(1, reason=TerminationReason.REJECTED, message="Its QOS does not exist.")
    failure = explain_failure(job, split_log_lines(b"ValueError: old\n", 0))
    assert failure is not None
    assert (failure.text, failure.line) == ("Its QOS does not exist.", None)


def test_larger_requests_are_offered_for_memory_and_time() -> None:
    memory = make_job(state=JobState.OUT_OF_MEMORY, reason=TerminationReason.OUT_OF_MEMORY)
    assert [each.memory for each in suggest_changes(memory, C.OUT_OF_MEMORY)] == [2 << 30, 3 << 29]
    late = make_job(
        state=JobState.TIMED_OUT,
        allocated_at=CREATED_AT,
        expires_at=CREATED_AT + timedelta(hours=30),
    )
    failure = explain_failure(late, ())
    assert failure is not None
    assert failure.text == "It reached its time limit of 1 d 6 h."
    assert [each.max_duration for each in suggest_changes(late, C.TIME_LIMIT)] == [
        60 * 3600,
        45 * 3600,
    ]
    assert suggest_changes(late, C.FILE_NOT_FOUND) == ()


@given(st.binary(max_size=4_000), st.integers(0, 1 << 40), st.integers(0, 255))
def test_any_bytes_are_explained_in_bounds(data: bytes, offset: int, code: int) -> None:
    lines = split_log_lines(data, offset)
    failure = explain_failure(failed(code), lines)
    assert failure is not None
    assert failure.text.endswith(".")
    assert len(failure.text) < 400
    for line in lines:
        assert len(line.text) <= MOST_IN_LINE
        assert line.text == "" or line.text.isprintable()
        start = line.offset - offset
        assert start == 0 or data[start - 1 : start] == b"\n"


@given(st.lists(st.sampled_from([log for _, _, log, _, _ in LOGS if log]), max_size=4))
def test_exception_that_is_last_is_the_error(before: list[str]) -> None:
    last = "torch.OutOfMemoryError: CUDA out of memory."
    found = find_error(split_log_lines("".join([*before, last, "\n"]).encode(), 0))
    assert found is not None
    assert (found.cause, found.line.text) == (C.GPU_OUT_OF_MEMORY, last)
