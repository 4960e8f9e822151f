"""The agent as a process in a job's folder, and a platform that records its requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aitne.core.jobs.agent_protocol import AgentReport, AgentSpec, ProgramPhase
from tests.support.waiting import eventually

JOB = "6f9f2c1e-0000-4000-8000-000000000001"


class Platform:
    """The two calls an agent makes, with a memory."""

    def __init__(self) -> None:
        self.reports: list[AgentReport] = []
        self.handovers: list[tuple[int, bytes]] = []
        self.trees: list[tuple[int, bytes]] = []
        """Answers with the job's tree, each given once."""
        self.tokens: set[str | None] = set()
        self.changed = threading.Condition()
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert set(body) <= set(AgentReport.model_fields)
                assert self.path == f"/agent/v1/jobs/{JOB}/report"
                with platform.changed:
                    platform.tokens.add(self.headers["Authorization"])
                    platform.reports.append(AgentReport.model_validate(body))
                    platform.changed.notify_all()
                self.answer(200, b"{}")

            def do_GET(self) -> None:
                if self.path == f"/agent/v1/jobs/{JOB}/tree":
                    with platform.changed:
                        platform.tokens.add(self.headers["Authorization"])
                        status, body = platform.trees.pop(0)
                    self.answer(status, body)
                    return
                assert self.path == f"/agent/v1/jobs/{JOB}/handover?wait_s=25"
                with platform.changed:
                    platform.tokens.add(self.headers["Authorization"])
                    platform.changed.wait_for(lambda: platform.handovers)
                    status, body = platform.handovers.pop(0)
                self.answer(status, body)

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Suppress the log of requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def hand_over(self, *answers: tuple[int, bytes]) -> None:
        with self.changed:
            self.handovers += answers
            self.changed.notify_all()

    def until(self, ok: Callable[[list[AgentReport]], bool]) -> list[AgentReport]:
        with self.changed:
            assert self.changed.wait_for(lambda: ok(self.reports), 60), self.reports
            return list(self.reports)

    def report(self, phase: ProgramPhase) -> AgentReport:
        reports = self.until(lambda found: any(report.phase is phase for report in found))
        return next(report for report in reports if report.phase is phase)

    def close(self) -> None:
        self.hand_over((204, b""))
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Job:
    """A job's folder and the agent in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "token").write_text("the-token\n")

    def start(
        self,
        *commands: str,
        url: str | None = None,
        variables: dict[str, str] | None = None,
        around: dict[str, str] | None = None,
        within: tuple[str, ...] = (),
        **facts: Any,
    ) -> subprocess.Popen[bytes]:
        spec = AgentSpec.model_validate(
            {
                "job_id": JOB,
                "attempt": 1,
                "platform_url": url,
                "commands": [("bash", "-c", command) for command in commands],
                "workdir": str(self.folder),
                "sample_interval_s": 0.1,
                "env": variables or {},
            }
            | facts
        )
        (self.folder / "agent.json").write_text(spec.model_dump_json())
        with open(self.folder / "output.log", "ab") as log:
            self.process = subprocess.Popen(
                [*within, sys.executable, "-I", "-m", "aitne.agent", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "SLURM_JOB_ID": "12",
                    "SLURMD_NODENAME": "node01",
                    **(around or {}),
                },
            )
        return self.process

    def run(self, *commands: str, **facts: Any) -> int:
        return self.start(*commands, **facts).wait(60)

    @property
    def log(self) -> str:
        return (self.folder / "output.log").read_text()

    def log_says(self, text: str) -> str:
        return eventually(f"the log says {text}", lambda: text in (log := self.log) and log)
