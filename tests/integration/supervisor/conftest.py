"""A supervisor with small stand-ins for its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aitne.supervisor import platform_control
from aitne.supervisor.child_process import open_log
from aitne.supervisor.process_account import ProcessAccount, acting_as
from aitne.supervisor.secret_files import ensure_secrets
from aitne.supervisor.supervisor_plan import ChildPlan, SupervisorPlan, plan_dir
from tests.support.alive import alive
from tests.support.ports import reserve_ports
from tests.support.waiting import eventually

# Notes what it was asked. Arguments: the port, the statuses (200) of which the last is repeated, and the
# seconds (0) until it listens.
SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def answer(self):
        print(self.command, self.path, self.headers.get("Authorization"), flush=True)
        self.send_response(int(statuses.pop(0) if len(statuses) > 1 else statuses[0]))
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_GET = do_POST = answer
    def log_message(self, *args):
        pass
statuses = (sys.argv[2:] or ["200"])[0].split(",")
until = time.monotonic() + float((sys.argv[3:] or ["0"])[0])
while time.monotonic() < until:
    time.sleep(0.02)
HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
SLEEPER = "import time; time.sleep(1000)"


class Supervised:
    """A data directory and the supervisor that runs on it."""

    def __init__(
        self,
        data_dir: Path,
        account: ProcessAccount | None = None,
        python: str = sys.executable,
        more: list[ChildPlan] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.account = account
        self.python = python
        self.more = more or []
        self.init = [python, "-c", "pass"]
        self.drain = [python, "-c", f"open({str(data_dir / 'drained')!r}, 'a').write('x')"]
        self.hub: tuple[str, ...] = ()
        """More arguments of the Hub's stand-in."""
        self.held: tuple[str, ...] = ()
        self.before_api = ""
        """Code that the API's stand-in runs before it listens."""
        self.probe_socket: str | None = None
        """UNIX socket in `run` on which the API's stand-in is probed."""
        self.hung_after_s = 30.0
        self.port = reserve_ports(5)
        self.pids: set[int] = set()
        with acting_as(account):
            for name in ("run", "logs"):
                (data_dir / name).mkdir(parents=True)
            ensure_secrets(data_dir / "secrets")

    def start(self, *options: str) -> int:
        """Write the plan and start; the exit status of what was started (it goes on by itself)."""
        base = f"http://127.0.0.1:{self.port}"
        children = [
            ChildPlan(
                "api",
                [self.python, "-c", self.before_api + SERVER, str(self.port)],
                port=self.port,
                probe=f"{base}/healthz",
                probe_socket=self.probe_socket,
            ),
            ChildPlan("controller", [self.python, "-c", SLEEPER]),
            self._server("hub", self.port + 1, *self.hub),
            self._server("proxy", self.port + 2),
            *self.more,
        ]
        folder = plan_dir(self.data_dir)
        SupervisorPlan(
            data_dir=str(self.data_dir),
            url=base,
            sessions_url="http://127.0.0.1",
            ready_url=f"{base}/readyz",
            hub_url=f"http://127.0.0.1:{self.port + 1}/hub",
            base_env=dict(os.environ),
            init=self.init,
            drain=self.drain,
            children=children,
            held=self.held,
            account=self.account,
        ).write(folder)
        argv = [self.python, "-m", "aitne.supervisor", str(folder)]
        with open_log(self.data_dir / "logs" / "supervisor.log", self.account) as log:
            done = subprocess.run([*argv, *(options or ["--detach"])], stdout=log, stderr=log)
        return done.returncode

    def status(self) -> dict[str, Any]:
        found = eventually("it answers", lambda: platform_control.get_status(self.data_dir))
        assert isinstance(found, dict)
        self.pids |= {found["supervisor_pid"], *(process["pid"] for process in found["processes"])}
        return found

    def pid(self, name: str) -> int:
        """Return the process id of a child process; 0 while it does not run."""
        processes = {process["name"]: process["pid"] for process in self.status()["processes"]}
        return int(processes.get(name, 0))

    def until_ready(self) -> None:
        eventually("it is ready", lambda: self.status()["state"] == "ready")

    def asked(self, name: str) -> list[str]:
        """Return the requests that a child process has logged."""
        return (self.data_dir / "logs" / f"{name}.log").read_text().splitlines()

    def _server(self, name: str, port: int, *more: str) -> ChildPlan:
        return ChildPlan(
            name,
            [self.python, "-c", SERVER, str(port), *more],
            port=port,
            hung_after_s=self.hung_after_s,
            probe=f"http://127.0.0.1:{port}/{name}",
            probe_secret="proxy_auth_token" if name == "proxy" else None,
        )


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    # Deeper than a socket's path may be.
    one = Supervised(tmp_path / ("deep-" * 20) / "data")
    yield one
    platform_control.stop_platform(one.data_dir, keep_jobs=True)
    for pid in one.pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
