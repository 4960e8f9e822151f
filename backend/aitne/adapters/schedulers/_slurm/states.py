"""Slurm's job states in the platform's terms (https://slurm.schedmd.com/job_state_codes.html)."""

from __future__ import annotations

from collections.abc import Iterable

from aitne.core.states import JobState, TerminationReason

_S = JobState
_R = TerminationReason

# Flags stand beside a base state and say more about the moment than it does; the first that is set
# wins. The commands print the flag alone, REST prints both words.
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
    # The job goes on as another one, in another cluster of a federation: nothing is known here.
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
"""Slurm keeps a FAILED record of a submission that it refused."""
_NOT_LAUNCHED = ("JobLaunchFailure", "RaisedSignal:53")
"""The node could not begin it (a log that cannot be opened). 22.05 says the first of every end by a
signal too."""


def job_state(
    words: Iterable[str], reason: str = "None", *, begun: bool = True, signal: int | None = None
) -> tuple[JobState, TerminationReason | None]:
    """The words that Slurm says at once (``COMPLETED``, ``COMPLETING``) -> state and why it ended.

    ``begun`` is whether it ever had nodes, ``signal`` what ended its script, if a signal did. sacct's ``CANCELLED by 1001`` is understood; a word
    that nobody knows makes the state UNKNOWN, which never means finished.
    """
    found = {word.partition(" ")[0].upper() for word in words}
    for flag, state in _FLAGS.items():
        if flag in found:
            return state, None
    bases = [_BASES[word] for word in found if word in _BASES]
    if len(bases) != 1:
        return _S.UNKNOWN, None
    state, why = bases[0]
    if state is _S.CANCELLED and reason == "DependencyNeverSatisfied":
        return state, _R.DEPENDENCY_FAILED
    if state is _S.FAILED and not begun and reason in _NEVER_BEGUN:
        return state, _R.REJECTED
    if state is _S.FAILED and signal is None and reason.startswith(_NOT_LAUNCHED):
        return state, _R.START_FAILED
    return state, why
