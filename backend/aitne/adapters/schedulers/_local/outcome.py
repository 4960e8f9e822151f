"""Outcome of a run, determined from the files that its runner wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from aitne.adapters.schedulers._local import runner_launcher
from aitne.adapters.schedulers._local.job_records import TaskOutcome
from aitne.core.jobs.states import TerminationReason

Facts = dict[str, object]


def read_end_record(
    run_dir: Path, identity: runner_launcher.ProcessIdentity | None
) -> Facts | None:
    """Return the runner's record of how a run ended. Return None if there is no record, because the
    runner was killed; the remaining processes of the run are terminated in this case.

    Args:
        run_dir: folder of the run.
        identity: identity of the runner; None: it is unknown.

    Raises:
        OSError: the folder cannot be read now.
    """
    facts = runner_launcher.read_exit(run_dir)
    if facts is None:
        runner_launcher.terminate_orphans(run_dir, identity)
    return facts


def _parse_time(seconds: object) -> object:
    """Convert a number, the runner's time in seconds since 1970, to a ``datetime``; any other value
    is returned unchanged.
    """
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return datetime.fromtimestamp(float(seconds), UTC) if is_number else seconds  # type: ignore[arg-type]


def to_task_outcome(
    record: Facts | None, *, cancelled: bool, started_at: datetime | None, now: datetime
) -> TaskOutcome:
    """Convert the runner's record of the end of a run to the outcome that the platform stores.

    Args:
        record: the record. If it is None or invalid, the outcome is ``NODE_FAILED``.
        cancelled: whether the job was cancelled; ``NODE_FAILED`` is then replaced by ``CANCELLED``.
        started_at: start of the run, which is used without a valid record; None: unknown.
        now: end of the run, which is used without a valid record.
    """
    lost = TaskOutcome(reason=TerminationReason.NODE_FAILED, started_at=started_at, ended_at=now)
    names = ("reason", "message", "exit_code", "signal", "started_at", "ended_at")
    try:
        ending = (
            lost
            if record is None
            else TaskOutcome.model_validate(
                {name: record.get(name) for name in names}
                | {name: _parse_time(record.get(name)) for name in ("started_at", "ended_at")}
            )
        )
    except (ValidationError, OverflowError, ValueError):
        ending = lost
    if cancelled and ending.reason is TerminationReason.NODE_FAILED:
        return ending.model_copy(update={"reason": TerminationReason.CANCELLED})
    return ending
