"""Tells the platform how the job is doing. Best effort: nothing here can delay or fail a job."""

from __future__ import annotations

import json
import threading
import time
from collections import deque

from aitne.agent import wire
from aitne.agent.spec import VERSION, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import Any

_MOST_SAMPLES = 1_000
_MOST_PHASES = 16
_BATCH = 3
"""Samples per heartbeat."""
_TIMEOUT_S = 20.0
_LONGEST_PAUSE_S = 30.0
_LAST_WORDS_S = 1.0


class Reporter:
    """A bounded queue and the thread that empties it towards the platform."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._url = f"{spec.platform_url}/agent/v1/jobs/{spec.job_id}/report"
        self._phases: deque[dict[str, Any]] = deque(maxlen=_MOST_PHASES)
        self._samples: deque[dict[str, Any]] = deque(maxlen=_MOST_SAMPLES)
        self._condition = threading.Condition()
        self._deadline: float | None = None
        self._address: str | None = None
        self._thread: threading.Thread | None = None
        if spec.platform_url:
            self._thread = threading.Thread(target=self._run, name="report", daemon=True)

    def start(self) -> None:
        """From here on what was queued is sent."""
        if self._thread is not None and self._thread.ident is None:
            self._thread.start()

    def phase(
        self,
        phase: str,
        *,
        address: str | None = None,
        exit_code: int | None = None,
        message: str | None = None,
    ) -> None:
        """Queue the news that the job has got so far."""
        with self._condition:
            self._address = address or self._address
            facts = {"exit_code": exit_code, "message": message and message[:2_000]}
            self._phases.append({"phase": phase, **facts})
            self._condition.notify()

    def sample(self, sample: dict[str, Any]) -> None:
        """Queue a measurement; the oldest gives way when nobody takes them."""
        with self._condition:
            self._samples.append(sample)
            if len(self._samples) >= _BATCH:
                self._condition.notify()

    def finish(self, exit_code: int, message: str | None = None) -> None:
        """Say that the job has ended, and wait at most a second for that to arrive."""
        self.phase("finished", exit_code=exit_code, message=message)
        with self._condition:
            self._deadline = time.monotonic() + _LAST_WORDS_S
            self._condition.notify()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(_LAST_WORDS_S)

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._condition:
                if pause and self._deadline is None:
                    self._condition.wait_for(lambda: self._deadline is not None, pause)
                self._condition.wait_for(self._something_to_say)
                report, samples, phase = self._next()
                if report is None:
                    return
                deadline = self._deadline
            timeout = _TIMEOUT_S if deadline is None else deadline - time.monotonic()
            if timeout <= 0:
                return
            if self._send(report, timeout):
                pause = 0.0
                with self._condition:
                    self._sent(samples, phase)
            elif deadline is not None:
                return
            else:
                pause = min(max(0.5, pause * 2), _LONGEST_PAUSE_S)

    def _something_to_say(self) -> bool:
        return bool(self._phases or len(self._samples) >= _BATCH or self._deadline is not None)

    def _next(self) -> tuple[dict[str, Any] | None, int, dict[str, Any] | None]:
        """The report to send, how many samples it holds, and which queued phase it tells of."""
        if not self._phases and len(self._samples) < _BATCH:
            return None, 0, None
        phase = self._phases[0] if self._phases else None
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
        return report, len(samples), phase

    def _sent(self, samples: int, phase: dict[str, Any] | None) -> None:
        if phase is not None and self._phases and self._phases[0] is phase:
            self._phases.popleft()
        for _ in range(min(samples, len(self._samples))):
            self._samples.popleft()

    def _send(self, report: dict[str, Any], timeout_s: float) -> bool:
        """Whether this report is done with: taken, or refused for good."""
        try:
            status, _ = wire.request(
                "POST",
                self._url,
                body=json.dumps(report).encode(),
                token=self._spec.token,
                timeout_s=timeout_s,
            )
        except (OSError, wire.Refused, ValueError):
            return False
        return status < 500 and status not in (408, 425, 429)
