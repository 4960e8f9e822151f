"""``--attach JOB_DIR``: starts a process beside the job's program and connects it with the
platform.

The platform starts this program in the allocation and exchanges frames over its standard input and
output: NUL, one letter, the length (four bytes, big-endian), the content. After each of its own
frames this program writes a newline, because Slurm forwards whole lines. Output that does not begin
with NUL comes from srun or a similar program.

    in   S start (JSON), D data, R size (JSON), F end of the input
    out  S started (JSON), D data, E data of the standard error, X ended (JSON)

When its input ends, it terminates all processes that it has started.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import sys
import termios
import time

from aitne.agent.errors import AttachError
from aitne.agent.running_program_environment import (
    MARK,
    NOT_STARTED,
    ProgramEnvironment,
    signal_terminal_processes,
)
from aitne.agent.sampler import adopt_orphans
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Sequence
    from typing import Any, NoReturn

HEAD = struct.Struct(">BcI")
MOST_BYTES = 1 << 20
"""Maximum size of a frame's content in bytes."""
_CHUNK = 1 << 14
_HOLD = 1 << 16
"""Maximum number of bytes that are buffered in each direction before reading stops."""
_LOOK_S = 1.0
"""Seconds between two checks for a closed connection while nothing is read."""
_FIRST_WITHIN_S = 30.0
_HANGUP_S, _TERM_S = 0.5, 2.0
_KILL_ROUNDS = 20
_TERM_NAME = "xterm-256color"


class FrameDecoder:
    """Decoder that splits the bytes from the platform into frames."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Return kind and content of each frame that is complete after adding ``data``.

        Raises ``ValueError`` if the data is not a frame or one is too large.
        """
        self._data += data
        frames = []
        while len(self._data) >= HEAD.size:
            zero, kind, size = HEAD.unpack_from(self._data)
            if zero or size > MOST_BYTES:
                raise ValueError("no frame")
            if len(self._data) < HEAD.size + size:
                break
            frames.append((kind, self._data[HEAD.size : HEAD.size + size]))
            self._data = self._data[HEAD.size + size :]
        return frames


def encode_frame(kind: bytes, content: bytes) -> bytes:
    """Encode one outgoing frame, which ends with a newline."""
    return HEAD.pack(0, kind, len(content)) + content + b"\n"


class AttachedProcess:
    """Program that was started for a terminal or SSH client, with the file descriptors of its input
    and outputs."""

    def __init__(self, pid: int, stdin: int, outputs: dict[int, bytes], terminal: bool) -> None:
        self.pid = pid
        self.stdin: int | None = stdin
        self.outputs = outputs
        """Kind of the frames (``D`` or ``E``) in which the output of each descriptor is sent."""
        self.terminal = terminal


class Attachment:
    """Connection of one terminal or SSH client to a running job: starts a program in the job's
    allocation, in addition to the job's own processes, and forwards its input and output.
    """

    def __init__(self, job_dir: str) -> None:
        self._job_dir = job_dir
        self._terminal = os.urandom(8).hex()
        self._frames = FrameDecoder()
        self._to_child = b""
        self._input_ended = False
        self._out = b""
        self._child: AttachedProcess | None = None
        self._ssh: Any = None

    def run(self) -> int:
        """Serve the connection until it ends. The returned exit code of this process has no meaning
        for the platform."""
        adopt_orphans()
        wake, waker = os.pipe()
        for descriptor in (wake, waker):
            os.set_blocking(descriptor, False)
            os.set_inheritable(descriptor, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        try:
            start, more = self._receive_start()
            self._child = self._start_program(start)
            for kind, content in more:
                self._handle_frame(kind, content)
            os.set_blocking(0, False)
            os.set_blocking(1, False)
            code = self._transfer_until_exit(wake)
            self._queue_frame(b"X", {"code": code})
        except AttachError as error:
            self._queue_frame(b"X", {"code": 1, "refused": str(error)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._queue_frame(b"X", {"code": 1, "refused": f"nothing could be started: {error}"})
        finally:
            self._terminate_processes()
        return 0

    # --- the start -------------------------------------------------------------------------------

    def _receive_start(self) -> tuple[dict[str, Any], list[tuple[bytes, bytes]]]:
        until = time.monotonic() + _FIRST_WITHIN_S
        while True:
            ready, _, _ = select.select([0], [], [], max(0.0, until - time.monotonic()))
            data = os.read(0, _CHUNK) if ready else b""
            if not data:
                raise AttachError("no request of what to start arrived")
            frames = self._frames.feed(data)
            if frames:
                kind, content = frames[0]
                if kind != b"S":
                    raise AttachError("the first frame must name what to start")
                return json.loads(content), frames[1:]

    def _start_program(self, start: dict[str, Any]) -> AttachedProcess:
        spec = Spec(self._job_dir, os.environ)
        node = str(start.get("node") or spec.node)
        place = ProgramEnvironment(spec, node, os.environ.get("SLURM_JOB_ID"))
        facts: dict[str, Any] = {
            "node": node,
            "where": "container"
            if place.contained
            else "beside"
            if place.is_outside_container
            else "node",
        }
        if start["kind"] == "ssh":
            from aitne.agent.ssh_server import SshServer

            self._ssh = SshServer(self._job_dir, node, self._terminal, str(start["public_key"]))
            facts["host_key"] = self._ssh.host_key
            child = self._spawn_pipes(self._ssh.argv(), None)
        else:
            extra = {MARK: self._terminal}
            argv = [str(part) for part in start.get("argv") or ()] or None
            if start.get("tty"):
                extra["TERM"] = str(start.get("term") or _TERM_NAME)
                child = self._spawn_terminal(place, argv, extra, start)
            else:
                child = self._spawn_pipes(argv, place, extra)
        self._queue_frame(b"S", facts)
        return child

    def _spawn_terminal(
        self,
        environment: ProgramEnvironment,
        argv: Sequence[str] | None,
        extra: dict[str, str],
        start: dict[str, Any],
    ) -> AttachedProcess:
        master, slave = os.openpty()
        _resize(master, start)

        def prepare() -> None:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for number in (0, 1, 2):
                os.dup2(slave, number)
            _close_other_descriptors()

        pid = os.fork()
        if pid == 0:
            _replace_process(environment, argv, extra, prepare)
        os.close(slave)
        os.set_blocking(master, False)
        return AttachedProcess(pid, master, {master: b"D"}, True)

    def _spawn_pipes(
        self,
        argv: Sequence[str] | None,
        environment: ProgramEnvironment | None,
        extra: dict[str, str] | None = None,
    ) -> AttachedProcess:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()

        def prepare() -> None:
            os.setsid()
            os.dup2(stdin[0], 0)
            os.dup2(stdout[1], 1)
            os.dup2(stderr[1], 2)
            _close_other_descriptors()

        pid = os.fork()
        if pid == 0:
            _replace_process(environment, argv, extra or {}, prepare)
        for child_end in (stdin[0], stdout[1], stderr[1]):
            os.close(child_end)
        for ours in (stdin[1], stdout[0], stderr[0]):
            os.set_blocking(ours, False)
        return AttachedProcess(pid, stdin[1], {stdout[0]: b"D", stderr[0]: b"E"}, False)

    # --- the traffic -----------------------------------------------------------------------------

    def _transfer_until_exit(self, wake: int) -> int:
        """Transfer data in both directions until the program ends; return its exit code. ``wake``
        is a descriptor that becomes readable when a signal arrives."""
        child = self._child
        if child is None:
            raise AttachError("nothing was started")
        code: int | None = None
        while code is None or child.outputs:
            reads = [wake]
            buffer_full = len(self._to_child) >= _HOLD
            if not buffer_full:
                reads.append(0)
            if len(self._out) < _HOLD:
                reads += child.outputs
            writes = [1] if self._out else []
            if self._to_child and child.stdin is not None:
                writes.append(child.stdin)
            # The children of an ended program may hold its output open: they are not waited for.
            timeout = _LOOK_S if buffer_full else None
            readable, writable, _ = select.select(
                reads, writes, [], timeout if code is None else 0.2
            )
            if wake in readable and self._handle_signals(wake):
                return 143
            if (0 in readable and not self._receive_frames()) or (buffer_full and _has_hung_up(0)):
                return 129
            if child.stdin is not None and child.stdin in writable:
                self._write_input(child)
            for output in [output for output in child.outputs if output in readable]:
                self._read_output(child, output)
            if 1 in writable:
                self._write_frames()
            if code is None:
                code = _collect_exit_code(child.pid)
            elif not (readable or writable or self._out):
                break  # with much data to write, its outputs were not read
        return code

    def _handle_signals(self, wake: int) -> bool:
        """Read pending signals from ``wake``; return whether one of them ends the connection, as
        all but ``SIGCHLD`` do."""
        return any(number != signal.SIGCHLD for number in os.read(wake, 256))

    def _receive_frames(self) -> bool:
        """Read and process frames from the platform; return False at the end of the input."""
        data = os.read(0, _CHUNK)
        if not data:
            return False
        for kind, content in self._frames.feed(data):
            self._handle_frame(kind, content)
        return True

    def _handle_frame(self, kind: bytes, content: bytes) -> None:
        child = self._child
        if child is None:
            return
        if kind == b"D":
            self._to_child += content
        elif kind == b"R" and child.terminal and child.stdin is not None:
            _resize(child.stdin, json.loads(content))
        elif kind == b"F":
            self._input_ended = True
        if self._input_ended and not self._to_child:
            self._close_input(child)

    def _write_input(self, child: AttachedProcess) -> None:
        try:
            written_bytes = os.write(child.stdin or 0, self._to_child[:_CHUNK])
            self._to_child = self._to_child[written_bytes:]
        except BlockingIOError:
            return
        except OSError:
            self._to_child = b""  # it reads no more
        if self._input_ended and not self._to_child:
            self._close_input(child)

    def _close_input(self, child: AttachedProcess) -> None:
        if child.stdin is None:
            return
        if child.terminal:
            self._to_child, self._input_ended = b"\x04", False
        else:
            os.close(child.stdin)
            child.stdin = None

    def _read_output(self, child: AttachedProcess, output: int) -> None:
        try:
            data = os.read(output, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the terminal's last process has ended
        if data:
            self._out += encode_frame(child.outputs[output], data)
            return
        del child.outputs[output]
        if child.stdin == output:
            child.stdin = None
        os.close(output)

    def _write_frames(self) -> None:
        try:
            self._out = self._out[os.write(1, self._out) :]
        except BlockingIOError:
            return

    def _queue_frame(self, kind: bytes, facts: dict[str, Any]) -> None:
        """Queue a frame with JSON content. If it is the last one (``X``), write all queued data,
        ignoring ``OSError``."""
        self._out += encode_frame(kind, json.dumps(facts).encode())
        if kind != b"X":
            return
        with contextlib.suppress(OSError):
            os.set_blocking(1, True)
            while self._out:
                self._out = self._out[os.write(1, self._out) :]

    # --- the end ---------------------------------------------------------------------------------

    def _terminate_processes(self) -> None:
        """Terminate the processes that are left: with SIGHUP first, then SIGTERM, finally
        SIGKILL."""
        began = time.monotonic()
        for round_ in range(_KILL_ROUNDS):
            waited = time.monotonic() - began
            late = waited > _TERM_S
            number = signal.SIGHUP if round_ == 0 else signal.SIGKILL if late else signal.SIGTERM
            remaining = signal_terminal_processes(self._terminal, number)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            if not remaining:
                break
            time.sleep(_HANGUP_S if round_ == 0 else 0.2)
        if self._ssh is not None:
            self._ssh.close()


def _replace_process(
    environment: ProgramEnvironment | None,
    argv: Sequence[str] | None,
    extra: dict[str, str],
    prepare: Any,
) -> NoReturn:
    """Replace this child process by the program ``argv``, or a shell if it is None. It runs in the
    job's environment ``environment``, or on the node as it is if that is None."""
    try:
        if environment is not None:
            environment.replace_process(argv, None, extra, prepare)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        prepare()
        os.execv(argv[0] if argv else "", list(argv or ()))  # noqa: S606
    finally:
        os._exit(NOT_STARTED)


def _has_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    return bool(poll.poll(0))


def _collect_exit_code(pid: int) -> int | None:
    """Collect the exit codes of all child processes that have ended, and return the exit code of
    the child ``pid``; None if that has not ended. Death by a signal counts as 128 plus its number.
    """
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended_pid, status = os.waitpid(-1, os.WNOHANG)
            if ended_pid == 0:
                break
            if ended_pid == pid:
                exit_code = os.waitstatus_to_exitcode(status)
                code = exit_code if exit_code >= 0 else 128 - exit_code
    return code


def _resize(terminal: int, size: dict[str, Any]) -> None:
    rows, columns = int(size.get("rows") or 24), int(size.get("cols") or 80)
    packed = struct.pack("HHHH", min(rows, 1_000), min(columns, 1_000), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, packed)


def _close_other_descriptors() -> None:
    # Only the open ones: the limit may be a billion.
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


def serve_attach_connection(job_dir: str) -> NoReturn:
    """Serve one ``--attach`` connection for the job in ``job_dir`` and exit."""
    sys.exit(Attachment(os.path.abspath(job_dir)).run())
