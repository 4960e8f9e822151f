"""Outcome of a job: exit code, reason and message, from the end of its programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from aitne.agent.program_supervisor import NOT_FOUND, NOT_STARTED, Programs
from aitne.agent.spec import Spec

ENVIRONMENT = 118
"""Exit code: the job's environment could not be loaded; the end of the log states the reason."""
START_FAILED = "start_failed"
PREFIX = "aitne: "
"""Beginning of each line that the platform writes to the log."""
_LONGEST = 1_900
"""Maximum number of characters in a message that the platform accepts."""
_PREAMBLE = "aitne-environment"
"""First argument of a command that loads its environment (venv, conda, modules) before the program.
"""
_FAILURE = "failure.json"
"""File in the job's folder in which a notebook's program states why it failed."""
_LAST_BYTES = 8_192


class Ending:
    """Outcome of the job.

    Args:
        code: exit code of the job.
        reason: reason if the agent ended the job or did not start it; otherwise None.
        message: message for the user; None: none. It is shortened if it is too long.
        in_log: whether the message is already in the log.
        stop_requested: whether the ranks on other nodes were asked to end.
        lost_nodes: names of the nodes whose agents were lost.
    """

    def __init__(
        self,
        code: int,
        reason: str | None = None,
        message: str | None = None,
        *,
        in_log: bool = False,
        stop_requested: bool = False,
        lost_nodes: Sequence[str] = (),
    ) -> None:
        self.code = code
        self.lost_nodes = lost_nodes
        self.reason = reason
        self.stop_requested = stop_requested
        """Whether the ranks on other nodes were asked to end."""
        self.in_log = in_log
        """Whether the message is already in the log."""
        self.message = None if message is None else message[:_LONGEST]


def make_command_outcome(spec: Spec, programs: Programs, code: int, argv: Sequence[str]) -> Ending:
    """Return the outcome of a command that ended with the exit code ``code``."""
    if code == 0:
        return Ending(0 if programs.stop_signal is None else 128 + programs.stop_signal)
    if (
        spec.explains_failure
        and programs.stop_signal is None
        and (words := _read_program_explanation(spec))
    ):
        return Ending(code, "failed", words, in_log=True)
    return make_program_outcome(spec, code, argv)


def make_program_outcome(spec: Spec, code: int, argv: Sequence[str]) -> Ending:
    """Return the outcome of a program that ended by itself, or whose environment could not be
    loaded.

    In the latter case, the reason is already in the log.
    """
    if code == ENVIRONMENT and _PREAMBLE in argv and (words := _read_last_message()):
        return Ending(code, START_FAILED, words, in_log=True)
    if spec.ranks is not None and not spec.runs_app_with_ranks:
        from aitne.agent import multi_node_run

        if (sentence := multi_node_run.find_rank_failure(spec)) is not None:
            return Ending(code, "failed", sentence)
    return Ending(code)


def with_full_disk_reason(spec: Spec, ending: Ending) -> Ending:
    """Return the outcome of a program that failed without a known reason. If its log does not fit on
    the disk, the program could not say why, and may have failed by that alone."""
    if ending.code == 0 or ending.reason is not None:
        return ending
    from aitne.agent import full_disk

    sentence = full_disk.find_full_disk_reason(spec.job_dir)
    if sentence is None:
        return ending
    message = f"the program ended with exit code {ending.code}, and {sentence}; delete files there"
    return Ending(full_disk.CODE, "failed", message, stop_requested=ending.stop_requested)


def with_launcher_reason(spec: Spec, ending: Ending) -> Ending:
    """Return the outcome if the container runtime itself failed, which is known from its exit code
    and the last line of the log; otherwise return ``ending``."""
    for code, words, reason in spec.launch.own_endings:
        if ending.code == code and (line := _last_line()).startswith(words):
            message = line.partition(":")[2].strip().rstrip(".")
            return Ending(code, reason, message, in_log=True)
    return ending


def _read_program_explanation(spec: Spec) -> str | None:
    """Return the sentence with which the job's program explains its failure; None if it has left
    none."""
    from aitne.agent import untrusted_files

    record = untrusted_files.read_json_object(f"{spec.job_dir}/{_FAILURE}", _LAST_BYTES)
    words = None if record is None else record[1].get("message")
    return words if isinstance(words, str) and words else None


def _read_last_message() -> str | None:
    """Return the message in the last line of the log if the platform wrote that line; otherwise
    None."""
    line = _last_line()
    return line[len(PREFIX) :].rstrip(".") if line.startswith(PREFIX) else None


def _last_line() -> str:
    try:
        if not stat.S_ISREG(os.fstat(2).st_mode):
            return ""
        with open("/proc/self/fd/2", "rb") as log:
            log.seek(max(0, os.fstat(2).st_size - _LAST_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""  # it may be writable but not readable
    return lines[-1] if lines else ""


def make_start_failure_outcome(program: str, error: OSError) -> Ending:
    """Return the outcome of a program that could not be started because of ``error``."""
    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
    message = f"{program} cannot be started: {error.strerror or error}"
    return Ending(code, START_FAILED, message)
