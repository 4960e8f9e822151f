"""Process of the supervisor: it starts and restarts the platform's processes, and answers requests
on a socket.

Standard library only, and one thread. A request is one JSON object on a line, ``{"verb": …}``:

``status`` (``brief``) returns one line with the state of all processes; ``where`` only the
platform's addresses; ``settings`` the settings of all processes, as environment variables; ``down``
(``keep_jobs``) stops the platform, with a line per step and ``{"done": true}`` last; ``hurry``
makes a stop that is in progress immediate; ``restart`` (``name``) stops one process, which is then
started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from aitne.local_system import hung_restart_records, process_status_file, systemd_notification
from aitne.local_system.held_process_start import HeldStart
from aitne.local_system.http_status_client import poll_http_status
from aitne.local_system.hung_restart_records import HungRestart
from aitne.local_system.process_status_file import ProcessStatus
from aitne.supervisor.child_process import Child, launch_process, read_last_lines, rotate_log
from aitne.supervisor.errors import PlatformStartError
from aitne.supervisor.process_account import ROOT
from aitne.supervisor.replaced_platform_stop import stop_replaced_platform
from aitne.supervisor.supervisor_plan import (
    DRAIN_WITHIN_S,
    END_WITHIN_S,
    LIVE,
    SOCKET,
    ChildPlan,
    SupervisorPlan,
)

SETTLING_S = 0.15
STEADY_S = 3.0
INIT_LOG = "init.log"
DRAIN_LOG = "drain.log"
INIT_WITHIN_S = 120.0
LOADED_WITHIN_S = 90.0
"""Seconds within which the processes must be loaded that replace those of a running platform."""
_OF_DATABASE = ("api", "controller")
"""Processes that need the database that ``init`` prepares."""
_VERBS = "verb is one of status, where, settings, down, hurry, restart (name)"

Say = Callable[[str], Awaitable[None]]


class Supervisor:
    """Main object of the supervisor process: starts the platform's processes and restarts those
    that exit or hang. ``run`` returns when the platform has ended.
    """

    def __init__(self, plan: SupervisorPlan) -> None:
        self.plan = plan
        self.data_dir = Path(plan.data_dir)
        self.run_dir = self.data_dir / "run"
        self.logs = self.data_dir / "logs"
        self.children = {child.name: self._make_child(child) for child in plan.children}
        self._run_fd = os.open(self.run_dir, os.O_PATH | os.O_DIRECTORY)
        self._since = datetime.now(UTC)
        self._init: subprocess.Popen[bytes] | None = None
        self._init_hold: HeldStart | None = None
        self._database_ready = False
        self._ready = False
        self._was_ready = False
        self._ending: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._ended = asyncio.Event()
        self._look_now = asyncio.Event()
        self._routes_due = False
        self._published: list[ProcessStatus] = []
        self._restarts: set[asyncio.TimerHandle] = set()

    @property
    def state(self) -> str:
        """Return the platform's state: ``starting``, ``ready``, ``degraded`` or ``stopping``."""
        if self._ending is not None:
            return "stopping"
        if self._ready:
            return "ready"
        return "degraded" if self._was_ready else "starting"

    async def run(
        self, *, replaces: Callable[[], bool] | None = None, main_process: bool = False
    ) -> None:
        """Start all processes and keep them running; return when the platform has ended.

        Args:
            replaces: the platform that runs in the data directory is replaced. It is ended only
                when the processes of this one are loaded, so that it is away briefly. The function
                takes the lock of the folder and returns True, or returns False while it is held.
            main_process: this process replaces the main process of its unit of systemd.

        Raises:
            PlatformStartError: the data directory could not be prepared, or a program is missing.
        """
        if replaces is not None:
            await self._load_held()
            if main_process:
                # The unit would end with its main process.
                _notify_systemd(f"MAINPID={os.getpid()}")
            await stop_replaced_platform(self._get_socket_path(), replaces)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._handle_exits)
        for number in (signal.SIGTERM, signal.SIGINT):
            # A service manager sends these before it restarts the platform: jobs continue.
            loop.add_signal_handler(number, lambda: self.begin_shutdown(keep_jobs=True))
        server = await self._listen()
        watch = asyncio.create_task(self._watch_children())
        starting = asyncio.create_task(self._start_children())
        ending = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await ending
        except PlatformStartError:
            # While the platform ends, no process that exits is started again.
            self._ending = asyncio.create_task(self._end_children(self.children.values()))
            await self._ending
            raise
        finally:
            for task in (watch, starting, ending):
                task.cancel()
            server.close()
            self._get_socket_path().unlink(missing_ok=True)

    def begin_shutdown(self, *, keep_jobs: bool, say: Say | None = None) -> asyncio.Task[None]:
        """Begin to end the platform, together with its jobs unless ``keep_jobs``; return the task
        to wait for. ``say`` is called with a line per step. A second call returns the same task.
        """
        if self._ending is None:
            _notify_systemd("STOPPING=1")
            self._ending = asyncio.create_task(
                self._shut_down(keep_jobs=keep_jobs, say=say or _discard_line)
            )
        return self._ending

    def get_status(self, *, brief: bool = False) -> dict[str, Any]:
        """Return the response to the request ``status``: the platform's addresses and its
        processes.

        ``brief`` omits the processes' memory usage.
        """
        self._handle_exits()
        live = [child for child in self.children.values() if child.is_alive]
        return {
            "state": self.state,
            "url": self.plan.url,
            "sessions_url": self.plan.sessions_url,
            "data_dir": self.plan.data_dir,
            "supervisor_pid": os.getpid(),
            "since": self._since.isoformat(timespec="seconds"),
            "processes": [child.get_status(brief=brief) for child in live],
        }

    def _make_child(self, child: ChildPlan) -> Child:
        if child.as_root:
            return Child(child, child.env, self.logs, Path("/"), ROOT)
        env = self._make_env(child.env, child.secret_env)
        return Child(child, env, self.logs, self.data_dir, self.plan.account)

    async def _start_children(self) -> None:
        # None of them needs the database, and the Hub takes longest.
        if "broker" in self.children:
            self._start_child(self.children["broker"])
        self._start_child(self.children["proxy"])
        self._start_child(self.children["hub"])
        for name in _OF_DATABASE:
            if name in self.plan.held:
                self._start_child(self.children[name])
        process = self._init or self._launch_program(self.plan.init, INIT_LOG)
        if self._init_hold is not None:
            self._init_hold.release()
        status = await self._wait_for_program(process, INIT_WITHIN_S)
        if status != 0:
            raise PlatformStartError(
                read_last_lines(self.logs / INIT_LOG, 5) or f"`init` ended with status {status}."
            )
        if self._ending is None:
            (self.run_dir / LIVE).write_text(f"{self.plan.accounts_mode}\n")
            self._database_ready = True
            for name in _OF_DATABASE:
                self._start_child(self.children[name])
                self.children[name].release()
            self._look_now.set()

    async def _load_held(self) -> None:
        """Start the held processes, and return when all of them are loaded and wait.

        Raises:
            PlatformStartError: one has ended, or is not loaded within ``LOADED_WITHIN_S`` seconds.
        """
        holds: dict[str, HeldStart] = {}
        for name in (name for name in _OF_DATABASE if name in self.plan.held):
            self._start_child(self.children[name])
            if (hold := self.children[name].hold) is not None:
                holds[name] = hold
        if "init" in self.plan.held:
            self._init_hold = holds["init"] = HeldStart()
            self._init = self._launch_program(self.plan.init, INIT_LOG, self._init_hold)
        give_up = asyncio.get_running_loop().time() + LOADED_WITHIN_S
        while not all(hold.is_loaded for hold in holds.values()):
            exited = [name for name in holds if self._poll_held(name) is not None]
            late = asyncio.get_running_loop().time() > give_up
            if exited or late:
                name = next(iter(exited), min(n for n in holds if not holds[n].is_loaded))
                reason = read_last_lines(self.logs / f"{name}.log", 5)
                raise PlatformStartError(reason or f"{name} could not be loaded.")
            await asyncio.sleep(0.02)

    def _poll_held(self, name: str) -> int | None:
        return (
            self._init.poll()
            if name == "init" and self._init
            else self.children[name].poll_exit_status()
        )

    def _start_child(self, child: Child) -> None:
        if self._ending is not None or child.is_alive:
            return
        rotate_log(child.log)
        try:
            child.start(held=child.plan.name in self.plan.held and not self._database_ready)
        except OSError as error:
            if not self._was_ready:
                raise PlatformStartError(
                    f"{child.plan.argv[0]} cannot be run: {error.strerror}."
                ) from error
            self._restart_later(child)
            return
        self._routes_due |= child.plan.name in ("hub", "proxy")
        self._look_now.set()

    def _handle_exits(self) -> None:
        for child in self.children.values():
            status = child.poll_exit_status()
            if status is not None and self._ending is None:
                _log(f"{child.plan.name} ended with status {status}; it is restarted")
                self._restart_later(child)
                self._record_hung(child)
            if status is not None:
                self._ready = False
                self._look_now.set()

    def _record_hung(self, child: Child) -> None:
        if child.killed_after_s is None:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        restart = HungRestart(child.plan.name, now, child.killed_after_s)
        try:
            hung_restart_records.record_restart(self.run_dir, restart)
        except OSError as error:
            _log(f"the restart of {child.plan.name} could not be recorded: {error}")

    def _restart_later(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        handle = loop.call_later(child.get_restart_delay_s(), lambda: self._start_child(child))
        self._restarts = {timer for timer in self._restarts if timer.when() > loop.time()} | {
            handle
        }

    async def _watch_children(self) -> None:
        while True:
            await self._check_children()
            self._publish_status()
            _notify_systemd("WATCHDOG=1")
            for log in [child.log for child in self.children.values()] + [
                self.logs / "supervisor.log"
            ]:
                rotate_log(log)
            try:
                settled = self._ready and not self._routes_due
                async with asyncio.timeout(STEADY_S if settled else SETTLING_S):
                    await self._look_now.wait()
            except TimeoutError:
                pass
            self._look_now.clear()

    async def _check_children(self) -> None:
        await asyncio.gather(*(self._probe(child) for child in self.children.values()))
        self._kill_hung()
        answering = all(child.is_alive and child.answers for child in self.children.values())
        if answering and self._routes_due:
            # A restarted proxy has no routes until the Hub sends them.
            token = self._read_secret("hub_api_token")
            url = f"{self.plan.hub_url}/api/proxy"
            status = await _poll_status(url, method="POST", token=token)
            self._routes_due = status is None or status >= 300
        socket = self._probe_socket(self.children["api"])
        ready = answering and await _poll_status(self.plan.ready_url, socket=socket) == 200
        self._ready = ready and all(child.is_alive for child in self.children.values())
        if self._ready and not self._was_ready:
            _notify_systemd("READY=1")
            self._was_ready = True

    def _publish_status(self) -> None:
        """Write the status of all processes to the file that the API's metrics read, if it has
        changed.
        """
        own = ProcessStatus("supervisor", os.getpid(), 0, self._since.timestamp(), answers=True)
        processes = [own, *(child.get_metrics_status() for child in self.children.values())]
        if processes == self._published:
            return
        try:
            process_status_file.write_process_status(self.run_dir, processes)
            self._published = processes
        except OSError as error:
            _log(f"the status of the processes could not be stored: {error}")

    def _kill_hung(self) -> None:
        for child in self.children.values():
            killed = child.killed_after_s is not None
            if child.is_alive and child.silence.is_hung and not killed and self._ending is None:
                silent = f"{child.silence.seconds:.0f} s"
                _log(f"{child.plan.name} has not answered for {silent}; it is killed")
                child.kill_hung()

    async def _probe(self, child: Child) -> None:
        if child.hold is not None:
            return
        if child.plan.heartbeat:
            child.record_probe(child.has_new_heartbeat())
            child.answers = child.is_alive and not child.silence.is_late
            return
        if child.plan.probe is None:
            child.answers = child.is_alive
            return
        process = child.process
        token = (
            None if child.plan.probe_secret is None else self._read_secret(child.plan.probe_secret)
        )
        socket = self._probe_socket(child)
        alive = child.is_alive
        status = await _poll_status(child.plan.probe, token=token, socket=socket) if alive else None
        if child.process is process:
            child.answers = status is not None and status < 500
            # An error is an answer, too: its cause may be elsewhere, and a restart would not help.
            child.record_probe(status is not None)

    async def _shut_down(self, *, keep_jobs: bool, say: Say) -> None:
        for timer in self._restarts:
            timer.cancel()
        keep_jobs = keep_jobs or not self.plan.drain
        await say("Ending the platform" + (" and leaving its jobs running." if keep_jobs else "."))
        # The program that ends the jobs replaces the controller and still needs the others.
        await self._end_children([self.children["controller"]])
        if not keep_jobs:
            await say("Ending sessions and jobs.")
            drain = self._launch_program(self.plan.drain, DRAIN_LOG)
            if await self._wait_for_program(drain, DRAIN_WITHIN_S) == 0:
                (self.run_dir / LIVE).unlink(missing_ok=True)
            else:
                await say(f"Not all jobs have ended: {read_last_lines(self.logs / DRAIN_LOG, 2)}")
        # The API ends last: the portal is away as briefly as possible when the platform is restarted.
        await self._end_children([self.children["hub"], self.children["proxy"]])
        await self._end_children(self.children.values())
        self._ended.set()

    async def _end_children(self, children: Iterable[Child]) -> None:
        waiting = [child for child in children if child.is_alive]
        for child in waiting:
            child.send_signal(signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + END_WITHIN_S
        while waiting:
            if asyncio.get_running_loop().time() > deadline or self._hurry.is_set():
                for child in waiting:
                    child.send_signal(signal.SIGKILL)
            await asyncio.sleep(0.02)
            for child in waiting:
                child.poll_exit_status()
            waiting = [child for child in waiting if child.is_alive]

    def _launch_program(
        self, argv: list[str], log: str, hold: HeldStart | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.logs / log).open("wb") as output:
            env, account = self._make_env({}, {}), self.plan.account
            return launch_process(argv, env, self.data_dir, output, (), account, hold)

    async def _wait_for_program(self, process: subprocess.Popen[bytes], within_s: float) -> int:
        """Wait until a program has ended and return its exit status; -9 if it was killed after
        ``within_s`` seconds.
        """
        deadline = asyncio.get_running_loop().time() + within_s
        while process.poll() is None:
            if asyncio.get_running_loop().time() > deadline or self._hurry.is_set():
                process.kill()
            await asyncio.sleep(0.02)
        return process.wait()

    async def _listen(self) -> asyncio.AbstractServer:
        self._get_socket_path().unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            return await asyncio.start_unix_server(self._serve, self._get_socket_path())
        finally:
            os.umask(mask)

    def _get_socket_path(self) -> Path:
        return self._get_run_dir_path(SOCKET)

    def _probe_socket(self, child: Child) -> Path | None:
        socket = child.plan.probe_socket
        return None if socket is None else self._get_run_dir_path(socket)

    def _get_run_dir_path(self, name: str) -> Path:
        # A socket path has at most 107 bytes, and data directories may be deeply nested.
        return Path(f"/proc/self/fd/{self._run_fd}/{name}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def answer(body: dict[str, Any]) -> None:
            writer.write(json.dumps(body).encode() + b"\n")
            await writer.drain()

        async def say(line: str) -> None:
            _log(line)
            try:
                await answer({"progress": line})
            except ConnectionError:
                _log("the client has closed its connection")

        try:
            while line := await reader.readline():
                await self._handle_request(line, answer, say)
        except (ConnectionError, ValueError) as error:
            _log(f"a request on the socket was not understood: {error}")
        finally:
            writer.close()

    async def _handle_request(
        self, line: bytes, answer: Callable[[dict[str, Any]], Awaitable[None]], say: Say
    ) -> None:
        request = json.loads(line)
        match request.get("verb") if isinstance(request, dict) else None:
            case "status":
                await answer(self.get_status(brief=bool(request.get("brief"))))
            case "where":
                url = self.plan.ready_url.removesuffix("/readyz")
                await answer({"url": self.plan.url, "api_url": url})
            case "settings":
                variables = {k: v for k, v in self.plan.base_env.items() if k.startswith("AITNE_")}
                await answer({"url": self.plan.url, "settings": variables})
            case "down":
                await asyncio.shield(
                    self.begin_shutdown(keep_jobs=bool(request.get("keep_jobs")), say=say)
                )
                await answer({"done": True})
            case "hurry":
                self._hurry.set()
                await answer({"done": True})
            case "restart" if request.get("name") in self.children:
                self.children[request["name"]].send_signal(signal.SIGTERM)
                await answer({"done": True})
            case "restart":
                names = ", ".join(self.children)
                await answer({"error": f"the processes of this platform are {names}"})
            case _:
                await answer({"error": _VERBS})

    def _make_env(self, env: dict[str, str], secret_env: dict[str, str]) -> dict[str, str]:
        secrets = {name: self._read_secret(file) for name, file in secret_env.items()}
        return self.plan.base_env | env | secrets

    def _read_secret(self, name: str) -> str:
        return (self.data_dir / "secrets" / name).read_text().strip()


_poll_status = partial(poll_http_status, within_s=3.0)


async def _discard_line(line: str) -> None:
    _log(line)


def _notify_systemd(state: str) -> None:
    try:
        systemd_notification.notify_systemd(state)
    except OSError as error:
        _log(f"the service manager did not accept {state}: {error}")


def _log(line: str) -> None:
    try:
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}", flush=True)  # noqa: T201 (its log)
    except OSError:
        return  # a full disk: the platform continues without logging
