"""Reports about the job to the platform. Failures are ignored: nothing here can delay or fail a
job."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque

from aitne.agent import http_client
from aitne.agent.spec import VERSION, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable
    from typing import Any

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""Version of the Python that runs the agent, and sessions and ranks without an own environment."""
_MOST_SAMPLES = 1_000
_MOST_PHASES = 16
_BATCH = 3
"""Maximum number of resource samples in the queue; when it is reached, a report is sent."""
_TIMEOUT_S = 20.0
_LONGEST_PAUSE_S = 30.0
_LAST_WORDS_S = 1.0
"""Seconds for which an ended job waits until its final report is delivered. If it is not, the
scheduler reports the end too."""
_LAST_DOCUMENTS_S = 5.0
"""Seconds for which an ended job waits until its metrics are delivered, which only the agent
reports."""


class Reporter:
    """Sender of reports to the platform: a queue of limited length, and a thread that sends its
    content."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._url = f"{spec.platform_url}/agent/v1/jobs/{spec.job_id}/report"
        self._phases: deque[dict[str, Any]] = deque(maxlen=_MOST_PHASES)
        self._samples: deque[dict[str, Any]] = deque(maxlen=_MOST_SAMPLES)
        self._documents: dict[str, dict[str, Any]] = {}
        self._active_at: float | None = None
        self._ranks_ended: str | None = None
        self._due = False
        self._condition = threading.Condition()
        self._deadline: float | None = None
        self._address: str | None = None
        self._boot_id: str | None = None
        self._start_describing: Callable[[str], None] | None = None
        self._thread: threading.Thread | None = None
        if spec.platform_url:
            self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def set_node_describer(self, start: Callable[[str], None]) -> None:
        """Set the function that starts the description of the node, with the ID of the node's boot as
        argument. It is called once, when the platform asks."""
        self._start_describing = start

    def start(self) -> None:
        """Start the thread that sends the queued reports."""
        if self._thread is not None and self._thread.ident is None:
            self._thread.start()

    def queue_phase(
        self,
        phase: str,
        *,
        address: str | None = None,
        exit_code: int | None = None,
        message: str | None = None,
    ) -> None:
        """Queue the report of a new phase of the job, such as ``started`` or ``finished``. Only the
        agent of the first node sends it."""
        if self._spec.node_rank is not None:
            return
        with self._condition:
            self._address = address or self._address
            facts = {"exit_code": exit_code, "message": message and message[:2_000]}
            self._phases.append({"phase": phase, **facts})
            self._condition.notify()

    def queue_sample(self, sample: dict[str, Any]) -> None:
        """Queue a measurement. If the queue is full because the platform does not answer, the
        oldest measurement is discarded."""
        with self._condition:
            self._samples.append(sample)
            if len(self._samples) >= _BATCH:
                self._condition.notify()

    def queue_profile(self, profile: dict[str, Any]) -> None:
        """Queue the profile of the ranks, replacing one that was not sent yet."""
        self.queue_document("profile", profile)

    def queue_document(self, kind: str, document: dict[str, Any]) -> None:
        """Queue a document. It replaces a document of the same kind that has not been sent yet.

        ``kind`` is ``profile``, ``snapshot``, ``results``, ``files``, ``placement`` or
        ``topology``.
        """
        with self._condition:
            self._documents[kind] = document
            self._condition.notify()

    def queue_activity(self, moment: float) -> None:
        """Queue the time of the last activity in the session, in seconds of the monotonic clock."""
        with self._condition:
            self._active_at = moment
            self._due = True
            self._condition.notify()

    def queue_ranks_end(self, sentence: str) -> None:
        """Queue the reason why the ranks of a session have ended, a sentence. Every later report
        contains it, because another change of the session's row in the database may overwrite
        it."""
        with self._condition:
            self._ranks_ended = sentence[:2_000]
            self._due = True
            self._condition.notify()

    def report_finish(self, exit_code: int, message: str | None = None) -> None:
        """Report that the job has ended, and wait at most one second until it is delivered (five
        seconds if documents are queued)."""
        self.queue_phase("finished", exit_code=exit_code, message=message)
        self.flush()

    def flush(self) -> None:
        """Send all queued reports, and wait at most one second until they are delivered (five
        seconds if documents are queued). Do not wait if the platform is unreachable."""
        with self._condition:
            longest = _LAST_DOCUMENTS_S if self._documents else _LAST_WORDS_S
            self._deadline = time.monotonic() + longest
            self._condition.notify()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(longest)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._condition:
                if pause and self._deadline is None:
                    self._condition.wait_for(lambda: self._deadline is not None, pause)
                self._condition.wait_for(self._has_reports)
                report, samples, phase = self._make_next_report()
                kind, document = self._get_next_document()
                if report is None:
                    return
                deadline = self._deadline
            timeout = _TIMEOUT_S if deadline is None else deadline - time.monotonic()
            if timeout <= 0:
                return
            taken, wanted = self._send(report, timeout)
            if wanted and samples:  # the job's program runs: nothing delays its start
                self._describe_node()
            if taken is not None:
                pause = 0.0
                with self._condition:
                    if taken or kind is None:  # a document comes from the job's own programs
                        self._record_sent(samples, phase)
                        self._due = False
                    if kind is not None and self._documents.get(kind) is document:
                        del self._documents[kind]
            elif deadline is not None:
                return
            else:
                pause = min(max(0.5, pause * 2), _LONGEST_PAUSE_S)

    def _has_reports(self) -> bool:
        return self._is_worth_sending() or self._deadline is not None

    def _is_worth_sending(self) -> bool:
        return bool(self._phases or self._documents or self._due or len(self._samples) >= _BATCH)

    def _make_next_report(self) -> tuple[dict[str, Any] | None, int, dict[str, Any] | None]:
        """Return the next report, the number of its samples, and the queued phase that it contains
        (None: none). Return None, 0 and None if there is nothing to send."""
        if not self._is_worth_sending():
            return None, 0, None
        phase = self._phases[0] if self._phases else None
        if phase is not None and phase["phase"] == "finished" and len(self._documents) > 1:
            phase = None  # the platform accepts no report after that one
        samples = list(self._samples)
        spec = self._spec
        report = {
            "protocol": VERSION,
            "attempt": spec.attempt,
            "task": spec.task,
            "restart_count": spec.restart_count,
            "node": spec.node,
            "address": self._address,
            "samples": samples,
            **(phase or {"phase": "running"}),
        }
        if spec.node_rank is not None:
            report["node_rank"] = spec.node_rank
        if samples:
            self._boot_id = self._boot_id or boot_id()
            report["boot_id"], report["python"] = self._boot_id, PYTHON
        if self._active_at is not None:
            # Computed now, because a queued report becomes older.
            report["idle_s"] = round(max(0.0, time.monotonic() - self._active_at), 3)
        if self._ranks_ended is not None:
            report["ranks_ended"] = self._ranks_ended
        kind, document = self._get_next_document()
        if kind is not None:
            report[kind] = document
        return report, len(samples), phase

    def _get_next_document(self) -> tuple[str | None, dict[str, Any] | None]:
        """Return kind and content of the next document to send; None and None if there is none.

        Each report contains only one document, because all together could exceed the platform's
        size limit.
        """
        return next(iter(self._documents.items()), (None, None))

    def _record_sent(self, samples: int, phase: dict[str, Any] | None) -> None:
        if phase is not None and self._phases and self._phases[0] is phase:
            self._phases.popleft()
        for _ in range(min(samples, len(self._samples))):
            self._samples.popleft()

    def _describe_node(self) -> None:
        start, self._start_describing = self._start_describing, None
        if start is not None and self._boot_id is not None:
            start(self._boot_id)

    def _send(self, report: dict[str, Any], timeout_s: float) -> tuple[bool | None, bool]:
        """Send a report. Return its result, and whether the platform requests a description of the
        node. The result is True if the report was accepted, False if it was rejected, and None if
        it must be sent again."""
        try:
            status, body = http_client.request(
                "POST",
                self._url,
                body=json.dumps(report).encode(),
                token=self._spec.token,
                timeout_s=timeout_s,
            )
        except (OSError, http_client.InvalidResponseError, ValueError):
            return None, False
        except RecursionError:  # brackets nested as deeply as could be read
            return False, False
        if status >= 500 or status in (408, 425, 429):
            return None, False
        return status < 300, status < 300 and _requests_node_description(body)


def boot_id() -> str | None:
    """Return the ID of the node's current boot; None if it cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read(64).strip()
    except (OSError, ValueError):
        return None


def _requests_node_description(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.get("topology_wanted") is True
