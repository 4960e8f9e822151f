"""Runner of one job: a detached process that outlives the platform. Standard library only.

Arguments: run folder, job folder, log, time limit (s), memory limit (bytes), grace time (s),
account. The runner's environment is that of the job, so that nothing has to be parsed before the
script starts. Modules that are slow to import are imported after the script has started.

With an account (``account_switch``), the runner runs as root and starts the job's processes under that
account. In this case it never opens files in the job folder; it reads and writes only the run
folder, which only root can enter.

The runner claims the run (it creates ``runner.json``), adopts orphaned processes of the job
(subreaper), and ends the job at its time limit or when it exceeds its memory limit. When no process
of the job is left, it writes ``exit.json`` atomically.

On SIGUSR1 the runner reads ``control.json``, which contains ``{"time_limit_s": …, "cancel": …}``.
SIGTERM ends the job: as a cancellation if ``control.json`` requests one, otherwise because the
machine shuts down. For each connection to the socket ``door``, the runner starts an agent
(``--attach``) in the running job; with an account, ``agent.json`` contains the agent's arguments.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence

from aitne.adapters.schedulers._local import account_switch, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import takes time, for which the script would have to wait
    import socket

RUNNER = "runner.json"
EXIT = "exit.json"
CONTROL = "control.json"
SCRIPT = "script.sh"
DOOR = "door"
AGENT = "agent.json"
CLAIMED, TAKEN, FAILED = b"claimed", b"taken", b"failed"
"""Messages that the runner sends to the process that started it, before it closes the inherited
descriptors.
"""

_AGENT = b"aitne.agent"
"""Part of the command line of the agent, the platform's program that runs the job's program. The
agent's memory is not counted towards the job's limit.
"""
_CLEARS_UP = b"_docker_launcher"
"""Part of the command line of the process that removes a job's container after the job's other
processes have ended.
"""
_CLEARING_S = 10.0
"""Seconds that this process may take after the other processes were killed."""
_TICK_S = 0.5
_LEFTOVER_GRACE_S = 2.0
_EXIT_FILE_BYTES = 1024
_PR_SET_CHILD_SUBREAPER = 36
_EVERY_SIGNAL = [number for number in range(1, 32) if number not in (9, 19)]


def main(arguments: Sequence[str]) -> None:
    """Detach from the caller, claim the run, start the script, report the start on stdout, and
    supervise the script until it ends.
    """
    run_dir, job_dir, log, time_limit, memory_limit, grace, account = arguments
    if os.fork():
        os._exit(0)
    os.setsid()
    try:
        runner = Runner(
            run_dir,
            job_dir,
            log,
            float(time_limit),
            int(memory_limit),
            float(grace),
            account_switch.JobAccount.parse(account),
        )
        answer = CLAIMED if runner.claim() else TAKEN
        if answer == CLAIMED:
            runner.launch()
            runner.install_signal_handlers()
    except OSError as error:
        answer = FAILED + b" " + str(error).encode("utf-8", "replace")
    _report_start(answer)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if answer == CLAIMED:
        runner.supervise()
    os._exit(0)


def _is_clean_up_process(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid and _CLEARS_UP in procfs.command_line(pid)
    except OSError:
        return False  # it has ended


def _report_start(message: bytes) -> None:
    try:
        os.write(1, message)
    except OSError:
        return  # the starter was killed; its successor identifies us by our record


class Runner:
    """Detached process that executes one run of a job or array task on this machine and enforces
    its limits.
    """

    def __init__(
        self,
        run_dir: str,
        job_dir: str,
        log: str,
        time_limit_s: float,
        memory_bytes: int,
        grace_s: float,
        account: account_switch.JobAccount | None,
    ) -> None:
        self.run_dir = run_dir
        self.job_dir = job_dir
        self.account = account
        self.log = log
        self.time_limit_s = time_limit_s
        self.memory_bytes = memory_bytes
        self.grace_s = grace_s
        self.started_at = time.time()
        self.started = time.monotonic()
        self.leader = 0
        self.status: int | None = None
        self.reason: str | None = None
        self.kill_at: float | None = None
        self.peak_bytes = 0
        self.cancelled = False
        self._leader_is_agent = False
        self._leftovers_reported = False
        self._wake = -1
        self._beside: set[int] = set()
        self._trouble = -1
        """Descriptor of the pipe from which the reason of a failed start is read, if the script
        runs under another account; otherwise -1.
        """

    # --- the start -------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Claim the run by creating ``runner.json``; return False if another runner has claimed it,
        or if the run was marked never to start.

        Disk space for the exit file is allocated now, so that a full disk cannot prevent the
        outcome from being recorded.
        """
        self._write_identity("claim")
        try:
            os.link(self._get_run_file_path("claim"), self._get_run_file_path(RUNNER))
        except FileExistsError:
            return False
        finally:
            os.unlink(self._get_run_file_path("claim"))
        with open(self._get_run_file_path("outcome"), "wb") as file:
            file.write(b" " * _EXIT_FILE_BYTES)
        return True

    def launch(self) -> None:
        """Start the script in a new session, with the log as its output."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.leader = self._start_script()
        self._write_identity("claim")
        os.replace(self._get_run_file_path("claim"), self._get_run_file_path(RUNNER))

    def _start_script(self) -> int:
        log = self.log
        if self.account is not None:
            self._trouble, report = os.pipe2(os.O_CLOEXEC)
            pid = self.account.start(
                ["/usr/bin/env", "bash", SCRIPT],
                self.job_dir,
                lambda: account_switch.open_job_streams(log),
                report,
            )
            os.close(report)
            return pid
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        return os.posix_spawnp(
            "bash",
            ["bash", SCRIPT],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=_EVERY_SIGNAL,
        )

    def _write_identity(self, name: str) -> None:
        pid = os.getpid()
        leader_start = procfs.start_time(self.leader) if self.leader else None
        with open(self._get_run_file_path(name), "w", encoding="ascii") as file:
            # Only numbers and a boot ID: written without the JSON module, which is not imported yet.
            file.write(
                f'{{"pid": {pid}, "start": {procfs.start_time(pid)}, "boot": "{procfs.boot_id()}", '
                f'"leader": {self.leader}, "leader_start": {leader_start or 0}, '
                f'"started_at": {self.started_at!r}}}\n'
            )

    # --- supervision -----------------------------------------------------------------------------

    def install_signal_handlers(self) -> None:
        """Install the handlers through which signals become commands."""
        import signal

        wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        self._wake = wake

    def supervise(self) -> None:
        """Enforce the limits until no process of the job is left, then write the outcome to
        ``exit.json``.
        """
        import select
        import signal

        self._read_control()
        door = self._open_attach_socket()
        watched: list[int | socket.socket] = [self._wake, *([] if door is None else [door])]
        next_look = 0.0
        while self._reap_children():
            now = time.monotonic()
            if now >= next_look:
                self._check_memory()
                next_look = now + _TICK_S
            self._check_time()
            self._terminate_leftovers()
            self._kill_when_due()
            until = self._compute_next_wake_up(next_look) - time.monotonic()
            ready, _, _ = select.select(watched, [], [], max(0.0, until))
            if door is not None and door in ready:
                self._accept_attach_request(door)
            if self._wake in ready:
                received = os.read(self._wake, 4096)
                if signal.SIGUSR1 in received or signal.SIGTERM in received:
                    self._read_control()
                if signal.SIGTERM in received:
                    self._terminate_script("cancelled" if self.cancelled else "node_failed")
        if door is not None:
            door.close()
            os.unlink(self._get_run_file_path(DOOR))
        self._write_exit()

    def _open_attach_socket(self) -> socket.socket | None:
        """Open the socket that accepts requests to start additional programs in the running job;
        return None if it cannot be created.
        """
        import socket

        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Through a descriptor of the folder: the path of a socket has at most 107 bytes.
            place = os.open(self.run_dir, os.O_PATH | os.O_DIRECTORY)
            try:
                door.bind(f"/proc/self/fd/{place}/{DOOR}")
            finally:
                os.close(place)
            door.listen()
            door.setblocking(False)
        except OSError:
            door.close()
            return None
        return door

    def _accept_attach_request(self, attach_socket: socket.socket) -> None:
        """Accept a connection and start an agent in the running job, in addition to the job's own
        processes, with the connection as its standard streams.
        """
        try:
            connection, _ = attach_socket.accept()
        except OSError:
            return  # the client has disconnected
        try:
            if self.status is None:
                self._beside.add(self._start_agent(connection.fileno()))
        except (OSError, ValueError) as error:
            connection.send(f"aitne: it could not be started: {error}\n".encode())
        finally:
            connection.close()

    def _start_agent(self, connection: int) -> int:
        import json
        import sys

        argv = [sys.executable, "-I", "-m", "aitne.agent"]
        if self.account is not None:
            with open(self._get_run_file_path(AGENT), encoding="utf-8") as file:
                argv = json.load(file)
        argv = [*argv, "--attach", self.job_dir]
        if self.account is not None:
            return self.account.start(
                argv, self.job_dir, lambda: (connection, connection), connection
            )
        return os.posix_spawn(
            argv[0],
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, connection, fd) for fd in (0, 1, 2)],
            setsid=True,
            setsigmask=[],
            setsigdef=_EVERY_SIGNAL,
        )

    def _reap_children(self) -> bool:
        """Collect the exit statuses of ended processes; return False if no process is left. A
        subreaper is the parent of all orphaned descendants, so it sees all of them.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader:
                self.status = status
            self._beside.discard(pid)

    def _compute_next_wake_up(self, next_check: float) -> float:
        if self.kill_at is None:
            return min(next_check, self.started + self.time_limit_s)
        # SIGKILL is repeated: quickly for programs that fork meanwhile, then for one stuck in the kernel.
        now = time.monotonic()
        pause = 0.02 if now < self.kill_at + 1.0 else _TICK_S
        return min(next_check, max(self.kill_at, now + pause))

    def _check_time(self) -> None:
        if self.reason is None and time.monotonic() >= self.started + self.time_limit_s:
            self._read_control()  # an extension may have been written whose signal is still pending
            if time.monotonic() >= self.started + self.time_limit_s:
                self._write_to_job_log(f"its time limit of {self.time_limit_s:.0f} s is over")
                self._terminate_script("timed_out")

    def _check_memory(self) -> None:
        processes = procfs.list_descendants(os.getpid())
        if self.account is None:
            self._exclude_agents(processes)
        used = sum(map(procfs.resident_bytes, processes))
        if used > self.memory_bytes:
            # Shared pages were counted once per process; only here is the exact number worth its cost.
            used = sum(map(procfs.proportional_bytes, processes))
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self.memory_bytes and self.reason in (None, "timed_out"):
            self._write_to_job_log(
                f"it used {used >> 20} MiB of memory and may use {self.memory_bytes >> 20}"
            )
            self.reason = "out_of_memory"
            self.kill_at = time.monotonic()

    def _exclude_agents(self, processes: dict[int, int]) -> None:
        """Remove the agents, which are programs of the platform, from the processes whose memory is
        counted. Only known processes are removed, since a program of the job's account could
        imitate an agent's command line.
        """
        if not self._leader_is_agent and self.status is None:
            self._leader_is_agent = _AGENT in procfs.command_line(self.leader)
        if self._leader_is_agent:
            processes.pop(self.leader, None)
        for pid in self._beside:
            processes.pop(pid, None)

    def _terminate_script(self, reason: str) -> None:
        """Send SIGTERM to the leader (the job's script), which forwards it to its program.
        Processes that remain after the grace time are killed.
        """
        if self.reason is not None:
            return
        if self.status is None:
            self.reason = reason
            if reason != "timed_out":
                self._write_to_job_log(
                    "it was cancelled" if reason == "cancelled" else "its node shuts down"
                )
            os.kill(self.leader, 15)  # not reaped yet, so the number is still the leader's
        self.kill_at = min(self.kill_at or float("inf"), time.monotonic() + self.grace_s)

    def _terminate_leftovers(self) -> None:
        """Terminate processes that the job's script left in the background when it ended."""
        if self.status is None or self._leftovers_reported:
            return
        self._leftovers_reported = True
        for pid, started in procfs.list_descendants(os.getpid()).items():
            procfs.signal_process(pid, started, 15)
        grace = min(self.grace_s, _LEFTOVER_GRACE_S)
        self.kill_at = min(self.kill_at or float("inf"), time.monotonic() + grace)

    def _kill_when_due(self) -> None:
        now = time.monotonic()
        if self.kill_at is not None and now >= self.kill_at:
            # The command line of another account's process is not read: its memory may be a file that hangs.
            spare = self.account is None and now < self.kill_at + _CLEARING_S
            for pid, started in procfs.list_descendants(os.getpid()).items():
                if not (spare and _is_clean_up_process(pid)):
                    procfs.signal_process(pid, started, 9)

    def _read_control(self) -> None:
        import json

        try:
            with open(self._get_run_file_path(CONTROL), encoding="utf-8") as file:
                control = json.load(file)
        except (OSError, ValueError):
            return  # no file yet: it is written atomically
        self.time_limit_s = float(control.get("time_limit_s", self.time_limit_s))
        self.cancelled = bool(control.get("cancel", False))

    # --- the end ---------------------------------------------------------------------------------

    def _write_exit(self) -> None:
        import json

        status = self.status or 0
        code = os.waitstatus_to_exitcode(status)
        trouble = self._start_failure()
        outcome = {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "reason": self.reason
            or ("start_failed" if trouble else "completed" if code == 0 else "failed"),
            "message": trouble or None,
            "started_at": self.started_at,
            "ended_at": time.time(),
            "peak_memory_bytes": self.peak_bytes,
        }
        text = json.dumps(outcome).encode().ljust(_EXIT_FILE_BYTES)
        delay = 0.1
        while True:
            try:
                file = os.open(self._get_run_file_path("outcome"), os.O_WRONLY | os.O_CREAT, 0o600)
                try:
                    os.pwrite(file, text, 0)
                    os.fsync(file)
                finally:
                    os.close(file)
                os.replace(self._get_run_file_path("outcome"), self._get_run_file_path(EXIT))
            except FileNotFoundError:
                return  # the run's folder was deleted: no process needs the outcome any more
            except OSError:
                time.sleep(delay)  # a disk failure: the outcome is worth a retry
                delay = min(delay * 2, 30.0)
            else:
                return

    def _start_failure(self) -> str | None:
        """Return the reason why the script could not be started; None if it was started."""
        if self._trouble < 0:
            return None
        # All that could hold the other end open has ended.
        return (
            os.read(self._trouble, account_switch.REPORT_BYTES).decode("utf-8", "replace").strip()
        )

    def _write_to_job_log(self, what: str) -> None:
        """Write a line with the reason why the job is being ended to the job's log; do nothing if
        that fails.
        """
        text = f"aitne: the job is being ended: {what}.\n".encode()
        try:
            if self.account is not None:
                self.account.append_to_log(self.job_dir, self.log, text)
                return
            log = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        except OSError:
            return
        try:
            os.write(log, text)
        except OSError:
            return
        finally:
            os.close(log)

    def _get_run_file_path(self, name: str) -> str:
        return os.path.join(self.run_dir, name)
