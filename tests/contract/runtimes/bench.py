"""Programs that the agent starts through a runtime as a job's, as root or as an ordinary user."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from aitne.adapters.node_software_folder import agent_archive
from aitne.core.jobs.agent_protocol import AgentSpec
from aitne.core.models.image import ImageUse
from aitne.core.ports.job_files import ProgramOutcome
from aitne.core.ports.runtime import Bind, ContainerSpec, Runtime
from tests.support.images import USR
from tests.support.waiting import eventually

JOB = "6f9f2c1e-0000-4000-8000-000000000002"
USER = "games"
"""An unprivileged account that every Debian has."""
KEEPER = Path(__file__).with_name("keeper.py")
HANDED_OVER = 'o\'ver "$x"'
_START_S = 30.0


@dataclass
class Run:
    """One agent with one program."""

    bench: Bench
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    @property
    def outcome(self) -> ProgramOutcome:
        """Return the outcome that the agent wrote when the program ended."""
        return ProgramOutcome.model_validate_json((self.folder / "outcome").read_bytes())

    @property
    def agent(self) -> psutil.Process:
        """Wait for the agent and return its process."""
        place = self.folder / "result.pid"
        eventually("the agent starts", place.exists, _START_S)
        return psutil.Process(int(place.read_text()))

    def launcher(self) -> psutil.Process:
        """Return the launcher's process, the only child of the agent."""
        (found,) = self.agent.children()
        return found

    def until(self, text: str) -> None:
        """Wait until the program has written that."""
        eventually(
            f"{text!r} in the output",
            lambda: text in self.out or self.process.poll() is not None,
            _START_S,
        )
        assert text in self.out, self.err

    def signal(self, number: int) -> None:
        """Signal the agent, as a scheduler does."""
        self.agent.send_signal(number)

    def end(self) -> int:
        """Wait for it; the agent's exit code. Nothing may be left."""
        self.process.wait(_START_S)
        result = json.loads((self.folder / "result").read_text())
        assert result["left"] == []
        assert list((self.folder / "local").iterdir()) == []
        assert self.bench.containers() == []
        return int(result["code"])


@dataclass
class Bench:
    """A runtime, an image for it and who uses it."""

    name: str
    runtime: Runtime
    image: ImageUse | None
    user: str | None
    home: Path
    """A folder of the user's own, seen in every container."""
    agent: Path
    daemon: Any = None
    _runs: list[Run] = field(default_factory=list)

    @property
    def contained(self) -> bool:
        return self.image is not None

    @property
    def account(self) -> pwd.struct_passwd:
        return pwd.getpwnam(self.user) if self.user else pwd.getpwuid(os.getuid())

    def folder(self, name: str) -> Path:
        """Create a folder that belongs to the user."""
        made = self.home / name
        made.mkdir()
        os.chown(made, self.account.pw_uid, self.account.pw_gid)
        return made

    def spec(self, argv: Sequence[str], **changes: Any) -> ContainerSpec:
        """Return a container specification with a writable home; ``binds`` are mounted after the home."""
        binds = (
            (
                *changes.pop("before", (USR,)),
                Bind(source=str(self.home), target=str(self.home), writable=True),
            )
            if self.contained
            else ()
        )
        return ContainerSpec(
            image=self.image,
            argv=tuple(argv),
            binds=(*binds, *changes.pop("binds", ())),
            home=str(self.home),
            workdir=str(changes.pop("workdir", self.home)),
            **changes,
        )

    def start(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        around: dict[str, str] | None = None,
        inside: Sequence[str] = (),
        agent: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Run:
        """Start a program. ``around`` is the node's environment, ``inside`` what the agent is started by."""
        folder = self.folder(f"run{len(self._runs)}")
        (folder / "local").mkdir()
        spec = self.spec(argv, **changes)
        launch = self.runtime.make_launch(spec)
        facts: dict[str, Any] = {
            "job_id": JOB,
            "attempt": 1,
            "platform_url": None,
            "commands": [argv],
            "workdir": spec.workdir,
            "launch": launch,
            "env": env or {},
            "tmp_dir": str(folder / "local"),
        }
        job = AgentSpec.model_validate(facts | (agent or {}))
        (folder / "agent.json").write_text(job.model_dump_json())
        for path in (folder / "local", folder / "agent.json"):
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        python = "/usr/bin/python3" if self.user else sys.executable
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            process = subprocess.Popen(
                [
                    *inside,
                    *self._as_user(),
                    python,
                    "-I",
                    str(self.agent.with_name("keeper.py")),
                    str(folder / "result"),
                    python,
                    "-I",
                    str(self.agent),
                    str(folder),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd="/",
                env={
                    "PATH": os.environ["PATH"],
                    "LANG": "C.UTF-8",  # else Python sets a variable of its own
                    "HOME": str(self.home),
                    **(around or {}),
                },
            )
        run = Run(self, folder, process)
        self._runs.append(run)
        return run

    def run(self, *argv: str, **how: Any) -> Run:
        """Run a program to its end, which must be a good one."""
        run = self.start(*argv, **how)
        assert run.end() == 0, run.err
        return run

    def sh(self, script: str, **how: Any) -> Run:
        """Run a shell's script to its end, which must be a good one."""
        return self.run("sh", "-ec", script, **how)

    def containers(self) -> list[str]:
        return [] if self.daemon is None else self.daemon.containers()

    def close(self) -> None:
        """End what a failed test has left, and remove all files."""
        for run in self._runs:
            if run.process.poll() is None:
                for process in reversed(psutil.Process(run.process.pid).children(recursive=True)):
                    process.send_signal(signal.SIGKILL)
                run.process.kill()
                run.process.wait()
        shutil.rmtree(self.home)

    def _as_user(self) -> list[str]:
        if self.user is None:
            return []
        account = self.account
        return [
            "setpriv",
            f"--reuid={account.pw_uid}",
            f"--regid={account.pw_gid}",
            "--clear-groups",
            "--inh-caps=-all",
        ]


def make_home(user: str | None) -> Path:
    """Create a folder that the user and all programs can reach, which pytest's own are not."""
    home = Path(tempfile.mkdtemp(prefix="aitne-runtimes-", dir="/tmp"))
    home.chmod(0o755)
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(home, account.pw_uid, account.pw_gid)
    return home


def write_software(folder: Path) -> Path:
    """Write the agent's archive, as on nodes, and the keeper beside it; return the agent's path."""
    agent = folder / "agent.pyz"
    agent.write_bytes(agent_archive())
    shutil.copy(KEEPER, folder / KEEPER.name)
    folder.chmod(0o755)
    return agent


@contextmanager
def platform() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve an agent's calls during the block; yield the address and the received reports.

    The handover has one variable.
    """
    reports: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"env": {"HANDED": HANDED_OVER}, "args": []})

        def do_POST(self) -> None:
            reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.answer({})

        def answer(self, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Suppress the log of requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", reports
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
