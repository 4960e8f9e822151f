"""Texts of notifications about events. The functions have no side effects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aitne.core.jobs.failure_explanation import explain_failure
from aitne.core.jobs.log_lines import LogLine
from aitne.core.jobs.states import TERMINAL, JobState, TerminationReason
from aitne.core.models.alert import AlertStatus, PlatformAlert
from aitne.core.models.announcement import Announcement, Maintenance, Severity
from aitne.core.models.event import Event
from aitne.core.models.job import Job, JobType
from aitne.core.models.notification import Level, NotificationContent, NotificationKind
from aitne.core.units import describe_duration

IDLE, GPU_IDLE, ENDING = "session.idle", "job.gpu_idle", "job.ending"
MESSAGE = "job.message"
JOB_EVENTS = frozenset({"job.state", IDLE, GPU_IDLE, ENDING, MESSAGE})
PROJECT_EVENTS = frozenset({"project.invited", "project.requested", "project.expiring"})
_NOTIFIED = TERMINAL | {JobState.READY, JobState.RUNNING}
"""States of a job of which its owner can be notified."""
MOST_LINES = 20
INBOX_LINES = 3
_SAID = "aitne: "
"""Prefix of the lines that the agent itself writes to a job's log."""

_K = NotificationKind
_BADLY = {
    JobState.FAILED: "failed",
    JobState.OUT_OF_MEMORY: "ran out of memory",
    JobState.TIMED_OUT: "reached its time limit",
    JobState.NODE_FAILED: "lost its node",
    JobState.PREEMPTED: "was preempted",
    JobState.LOST: "was lost",
    JobState.CANCELLED: "was cancelled",
}


def may_notify_owner(event: Event) -> bool:
    """Return False if ``make_job_notification`` returns None for the event in any case, so that the job need not
    be read.
    """
    if event.data.get("array_job_id") is not None:
        return False
    return event.kind != "job.state" or JobState(event.data["state"]) in _NOTIFIED


def make_job_notification(event: Event, job: Job, now: datetime) -> NotificationContent | None:
    """Return the content of the notification about the event for the owner of ``job``; None if the
    event causes no notification.

    ``job`` may have changed since the event: an event that is no longer true of the job causes no
    notification.
    """
    if event.kind == MESSAGE:
        return _make_message_content(event, job)
    if job.array_job_id is not None:
        return None  # its array has the notice for all tasks
    if event.kind == ENDING:
        return _make_expiring_content(event, job, now)
    if event.kind == IDLE:
        return _make_idle_content(event, job, now)
    if event.kind == GPU_IDLE:
        return _make_idle_gpu_content(event, job)
    return _make_state_content(event, job)


def _make_state_content(event: Event, job: Job) -> NotificationContent | None:
    state = JobState(event.data["state"])
    if int(event.data.get("attempt", job.attempt)) != job.attempt:
        return None  # it was started again
    session = job.type is JobType.SESSION
    if state is JobState.READY:
        ready = job.state is JobState.READY and event.data.get("previous") != JobState.SUSPENDED
        about = "It is waiting for you."
        return (
            _make_content(job, _K.SESSION_READY, Level.SUCCESS, "is ready", about)
            if ready
            else None
        )
    if state is JobState.RUNNING and not session:
        if event.data.get("previous") in (JobState.SUSPENDED, JobState.UNKNOWN):
            return None
        return _make_content(job, _K.JOB_STARTED, Level.INFO, "has started", "")
    if not state.is_terminal or job.state is not state:
        return None
    if state is JobState.COMPLETED:
        # A user who shuts a session down knows that it has ended.
        return (
            None
            if session
            else _make_content(
                job, _K.JOB_FINISHED, Level.SUCCESS, "has finished", _describe_run(job)
            )
        )
    if _is_cancelled_by_owner(job):
        return None
    if job.reason is TerminationReason.IDLE:
        return _make_content(job, _K.SESSION_ENDED, Level.WARNING, "has ended", job.message or "")
    level = Level.WARNING if state in (JobState.TIMED_OUT, JobState.CANCELLED) else Level.ERROR
    kind = _K.SESSION_ENDED if session else _K.JOB_FAILED
    failure = explain_failure(job, ())
    text = job.message or "" if failure is None else failure.text
    return _make_content(job, kind, level, _BADLY[state], text)


def _is_cancelled_by_owner(job: Job) -> bool:
    """Return whether the job ended because its owner requested its cancellation."""
    if job.reason is not TerminationReason.CANCELLED:
        return False
    return job.message is None or job.message.endswith(f" by {job.owner}.")


def _describe_run(job: Job) -> str:
    if job.message:
        return job.message
    if job.started_at is None or job.ended_at is None:
        return ""
    return f"It ran for {describe_duration(max(1, round((job.ended_at - job.started_at).total_seconds())))}."


def _make_expiring_content(event: Event, job: Job, now: datetime) -> NotificationContent | None:
    if job.state.is_terminal or job.expires_at is None or job.expires_at <= now:
        return None
    left_s = _whole_minutes((job.expires_at - now).total_seconds())
    text = "Its time limit is nearly reached. Save your work, or extend it."
    return _make_content(
        job,
        _K.SESSION_EXPIRING,
        Level.WARNING,
        f"ends in {describe_duration(left_s)}",
        text,
        left_s=left_s,
        ends_at=job.expires_at.isoformat(),
    )


def _make_idle_content(event: Event, job: Job, now: datetime) -> NotificationContent | None:
    ends = job.idle_ends_at
    if job.state.is_terminal or ends is None or ends <= now or job.cancel_requested_at:
        return None
    left_s = _whole_minutes((ends - now).total_seconds())
    text = "It has not been used for a while. Keep it, or continue to work in it."
    return _make_content(
        job,
        _K.SESSION_IDLE,
        Level.WARNING,
        f"is idle and ends in {describe_duration(left_s)}",
        text,
        left_s=left_s,
        ends_at=ends.isoformat(),
    )


def _make_idle_gpu_content(event: Event, job: Job) -> NotificationContent | None:
    if job.state.is_terminal:
        return None
    percent = round(100 * float(event.data.get("utilization", 0.0)))
    window = describe_duration(int(event.data.get("window_s", 0)))
    text = (
        f"Over the last {window} they were {percent} % busy on average. Check whether the program uses "
        "them at all, or cancel it so that other jobs can."
    )
    return _make_content(
        job, _K.GPU_IDLE, Level.WARNING, "leaves its GPUs idle", text, percent=percent
    )


def _make_message_content(event: Event, job: Job) -> NotificationContent:
    text = str(event.data.get("text") or "")
    return _make_content(job, _K.JOB_MESSAGE, Level.INFO, "has a message for you", text)


def _whole_minutes(seconds: float) -> int:
    """Return the number of minutes, rounded, of at least 90 seconds; shorter times are described in
    another way.
    """
    return max(1, round(seconds)) if seconds < 90 else 60 * round(seconds / 60)


def _make_content(
    job: Job, kind: NotificationKind, level: Level, predicate: str, text: str, **data: Any
) -> NotificationContent:
    return NotificationContent(
        kind=kind,
        level=level,
        title=f"{job.name} {predicate}",
        text=text,
        job_id=job.id,
        path=f"/jobs/{job.id}",
        data={
            "name": job.name,
            "type": job.type.value,
            "state": job.state.value,
            "reason": None if job.reason is None else job.reason.value,
            **data,
        },
    )


def wants_log(notice: NotificationContent) -> bool:
    """Return whether the notification is to contain the last lines of the job's log."""
    return notice.level is Level.ERROR and notice.job_id is not None


def with_log(
    notice: NotificationContent, job: Job, lines: Sequence[LogLine]
) -> NotificationContent:
    """Return the notification with the explanation of the job's failure and the last lines of its
    log.

    ``lines`` are the last lines of the log; empty if they are not known.
    """
    failure = explain_failure(job, lines)
    text = notice.text if failure is None else failure.text
    known = {_normalize_sentence(text), _normalize_sentence(job.message or "")} - {""}
    shown = [
        line.text
        for line in lines
        if _normalize_sentence(line.text.removeprefix(_SAID)) not in known
    ]
    while shown and not shown[-1]:
        shown.pop()
    return notice.model_copy(update={"text": text, "log": tuple(shown[-MOST_LINES:])})


def _normalize_sentence(sentence: str) -> str:
    """Return the sentence in lower case and without its full stop, for comparisons with other
    sentences.
    """
    return sentence.strip().rstrip(".").lower()


def for_inbox(notice: NotificationContent) -> NotificationContent:
    """Return the notification as it is shown in the portal, with fewer lines of the log."""
    if not notice.log:
        return notice
    last = list(notice.log[-INBOX_LINES:])
    return notice.model_copy(update={"data": {**notice.data, "log": last}})


def make_project_notification(event: Event) -> NotificationContent | None:
    """Return the content of the notification about a project's event; None if the event causes no
    notification.
    """
    name = event.project or ""
    path, data = f"/projects/{name}", {"project": name, **event.data}
    by = str(event.data.get("actor") or "")
    if event.kind == "project.invited":
        headline = (
            f"{by} made you a member of the project {name}" if by else f"You are a member of {name}"
        )
        return NotificationContent(kind=_K.PROJECT_INVITED, title=headline, path=path, data=data)
    if event.kind == "project.requested":
        title = f"{by} has a request for the project {name}"
        text = str(event.data.get("reason") or "")
        return NotificationContent(
            kind=_K.PROJECT_REQUESTED, title=title, text=text, path=path, data=data
        )
    days = event.data.get("days")
    when = "soon" if not isinstance(days, int) else "in a day" if days == 1 else f"in {days} days"
    return NotificationContent(
        kind=_K.PROJECT_EXPIRING,
        level=Level.WARNING,
        title=f"The project {name} ends {when}",
        text="After that it accepts no new jobs. A manager can ask for more time.",
        path=path,
        data=data,
    )


def make_announcement_notification(announcement: Announcement) -> NotificationContent:
    """Return the content of the notification about an administrator's announcement."""
    level = {Severity.INFO: Level.INFO, Severity.WARNING: Level.WARNING}
    first = announcement.text.strip().splitlines()[0]
    return NotificationContent(
        kind=_K.ANNOUNCEMENT,
        level=level.get(announcement.severity, Level.ERROR),
        title=first if len(first) <= 120 else f"{first[:119]}…",
        text=announcement.text if len(announcement.text) > len(first) else "",
        path=f"/#announcement-{announcement.id}",
        data={"announcement": announcement.id, "severity": announcement.severity.value},
    )


def make_maintenance_notification(window: Maintenance) -> NotificationContent:
    """Return the content of the notification about a maintenance, during which no new
    jobs start.
    """
    begins = f"{window.starts_at:%Y-%m-%d %H:%M} UTC"
    until = "" if window.ends_at is None else f" until {window.ends_at:%Y-%m-%d %H:%M} UTC"
    return NotificationContent(
        kind=_K.MAINTENANCE,
        level=Level.WARNING,
        title=f"Maintenance from {begins}{until}",
        text=f"{window.message}\n\nRunning jobs continue; new jobs wait.".strip(),
        path=f"/#maintenance-{round(window.created_at.timestamp())}",
        data={
            "starts_at": window.starts_at.isoformat(),
            "ends_at": None if window.ends_at is None else window.ends_at.isoformat(),
        },
    )


def make_alert_notification(alert: PlatformAlert) -> NotificationContent:
    """Return the content of the notification about an alert that fires or is resolved."""
    resolved = alert.status is AlertStatus.RESOLVED
    level = {"critical": Level.ERROR, "warning": Level.WARNING}.get(alert.severity, Level.INFO)
    runbook = f"Runbook: {alert.runbook_url}" if alert.runbook_url else ""
    return NotificationContent(
        kind=_K.ALERT,
        level=Level.SUCCESS if resolved else level,
        title=f"Resolved: {alert.summary}" if resolved else alert.summary,
        text="" if resolved else f"{alert.description} {runbook}".strip(),
        path=f"/admin#{alert.fingerprint}",
        data={
            "alert": alert.name,
            "severity": alert.severity,
            "status": alert.status.value,
            "summary": alert.summary,
            "runbook_url": alert.runbook_url,
        },
    )


def make_disabled_webhook_notification(event: Event) -> NotificationContent:
    """Return the content of the notification about a webhook that the platform has disabled."""
    url, error = str(event.data.get("url", "")), str(event.data.get("error", ""))
    return NotificationContent(
        kind=_K.WEBHOOK_DISABLED,
        level=Level.ERROR,
        title=f"The webhook {url} was disabled",
        text=f"{error} Fix it, then enable it again.",
        path="/account/notifications",
        data={"url": url, "error": error},
    )


def make_account_security_notification(event: Event) -> NotificationContent:
    """Return the content of the notification that tells a user of a change to the account's
    credentials.
    """
    data = event.data
    by = data.get("by")
    titles = {
        "sign_in": f"New login: {data.get('device') or 'unknown browser'}",
        "token": f"New token: {data.get('name')}" + (f" (created by {by})" if by else ""),
        "password": "Your password was changed",
        "second_factor": "Your second factor was removed",
    }
    change = str(data.get("change"))
    origin = f"From {data['address']}. " if data.get("address") else ""
    page = {"token": "/account/tokens"}.get(change, "/account/security")
    return NotificationContent(
        kind=_K.ACCOUNT_SECURITY,
        level=Level.WARNING,
        title=titles[change],
        text=f"{origin}If this was not you, change your password, log out everywhere and revoke "
        "your tokens.",
        path=page,
        data=dict(data),
    )
