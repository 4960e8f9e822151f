"""Conversion of Slurm's job states (https://slurm.schedmd.com/job_state_codes.html)."""

from __future__ import annotations

from collections.abc import Iterable

from aitne.core.jobs.states import JobState, TerminationReason

_S = JobState
_R = TerminationReason

# Flags accompany a base state and describe the current state more precisely; the first flag that is
# set takes precedence. The commands print only the flag, REST returns both words.
_FLAGS: dict[str, JobState] = {
    "REQUEUE_HOLD": _S.QUEUED,
    "SPECIAL_EXIT": _S.QUEUED,
    "REQUEUE_FED": _S.QUEUED,
    "REQUEUED": _S.QUEUED,
    "RESV_DEL_HOLD": _S.QUEUED,
    "COMPLETING": _S.COMPLETING,
    "STAGE_OUT": _S.COMPLETING,
    "CONFIGURING": _S.STARTING,
    "POWER_UP_NODE": _S.STARTING,
    "STOPPED": _S.SUSPENDED,
    "RESIZING": _S.RUNNING,
    "SIGNALING": _S.RUNNING,
    # The job continues as another one in another cluster of a federation: its state is unknown here.
    "REVOKED": _S.UNKNOWN,
}
_BASES: dict[str, tuple[JobState, TerminationReason | None]] = {
    "PENDING": (_S.QUEUED, None),
    "RUNNING": (_S.RUNNING, None),
    "SUSPENDED": (_S.SUSPENDED, None),
    "COMPLETED": (_S.COMPLETED, _R.COMPLETED),
    "CANCELLED": (_S.CANCELLED, _R.CANCELLED),
    "FAILED": (_S.FAILED, _R.FAILED),
    "TIMEOUT": (_S.TIMED_OUT, _R.TIMED_OUT),
    "DEADLINE": (_S.TIMED_OUT, _R.TIMED_OUT),
    "NODE_FAIL": (_S.NODE_FAILED, _R.NODE_FAILED),
    "BOOT_FAIL": (_S.NODE_FAILED, _R.NODE_FAILED),
    "PREEMPTED": (_S.PREEMPTED, _R.PREEMPTED),
    "OUT_OF_MEMORY": (_S.OUT_OF_MEMORY, _R.OUT_OF_MEMORY),
}
_NEVER_BEGUN = frozenset({"BadConstraints", "InvalidAccount", "InvalidQOS", "AccountNotAllowed"})
"""Reasons in the FAILED record that Slurm keeps of a rejected submission; such a job never existed.
"""
_NOT_LAUNCHED = ("JobLaunchFailure", "RaisedSignal:53")
"""Reasons of a job that failed to start on the node (for example because its log could not be
opened). 22.05 also reports the first one for every end by a signal.
"""


def job_state(
    words: Iterable[str], reason: str = "None", *, begun: bool = True, signal: int | None = None
) -> tuple[JobState, TerminationReason | None]:
    """Convert the words that Slurm reports for one job (such as ``COMPLETED`` and ``COMPLETING``
    together) to its state and termination reason.

    ``begun`` is True if the job was ever allocated nodes; ``signal`` is the signal that ended its
    script, if any. sacct's ``CANCELLED by 1001`` is accepted. An unknown word gives the state
    UNKNOWN, which is not terminal.
    """
    names = {word.partition(" ")[0].upper() for word in words}
    for flag, state in _FLAGS.items():
        if flag in names:
            return state, None
    bases = [_BASES[word] for word in names if word in _BASES]
    if len(bases) != 1:
        return _S.UNKNOWN, None
    state, termination = bases[0]
    if state is _S.CANCELLED and reason == "DependencyNeverSatisfied":
        return state, _R.DEPENDENCY_FAILED
    if state is _S.FAILED and not begun and reason in _NEVER_BEGUN:
        return state, _R.REJECTED
    if state is _S.FAILED and signal is None and reason.startswith(_NOT_LAUNCHED):
        return state, _R.START_FAILED
    return state, termination
