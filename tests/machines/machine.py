"""A complete Debian machine: an overlay over the base, booted by ``systemd-nspawn``."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.machines import network

BOOT_WITHIN_S = 60.0
GONE_WITHIN_S = 180.0
"""The kernel removes the network of a machine that has ended by and by."""
LONGEST_NAME = 9
"""Names of network interfaces have 15 characters at most, six of which are the fleet's."""


class MachineError(Exception):
    """A machine, or a command on it, did not do what the test needs."""


@dataclass(slots=True)
class Machine:
    """A machine of a fleet. ``folder`` holds all it writes; ``options`` are nspawn's for its mounts."""

    name: str
    address: str
    folder: Path
    slot: int
    bridge: str
    base: Path
    ssh_key: Path
    options: list[str] = field(default_factory=list)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """The path of the root file system on the host, without the mounts inside the machine."""
        return self.folder / "root"

    @property
    def console(self) -> str:
        """Return the console output since the machine's first boot."""
        log = self.folder / "console.log"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def _port(self) -> str:
        return f"vb-a{self.slot}-{self.name}"

    def prepare(self, files: dict[str, str]) -> None:
        """Lay the overlay and write ``files`` into it, before the first boot."""
        if len(self.name) > LONGEST_NAME:
            raise ValueError(f"{self.name}: a machine's name has {LONGEST_NAME} characters at most")
        upper, work = self.folder / "upper", self.folder / "work"
        for folder in (upper, work, self.root):
            folder.mkdir(parents=True)
        # volatile: nothing is synced to the disk, for nothing of this outlives the fleet.
        layers = f"volatile,lowerdir={self.base},upperdir={upper},workdir={work}"
        argv = ["mount", "-t", "overlay", "overlay", "-o", layers, str(self.root)]
        subprocess.run(argv, check=True)
        for path, text in files.items():
            target = self.root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)

    def boot(self) -> None:
        """Start it; ``wait_ready`` tells when it is up. It keeps the disk of its last life."""
        if self.leader() is not None:
            raise MachineError(f"{self.name} runs already")
        argv = ["systemd-nspawn", "--quiet", "--boot", f"--directory={self.root}"]
        argv += [f"--machine=a{self.slot}-{self.name}", f"--hostname={self.name}"]
        argv += [f"--network-bridge={self.bridge}", "--resolv-conf=off", "--link-journal=no"]
        # There may be no systemd here to ask for a unit or to tell about the machine.
        argv += ["--register=no", "--keep-unit", *self.options]
        cgroups = self._make_cgroups()
        record = self.folder / "pid"

        def enter() -> None:  # in the child: `pid` names it even if this process is killed
            for cgroup in cgroups:
                (cgroup / "cgroup.procs").write_text("0")
            record.write_text(f"{os.getpid()} {_start_time(os.getpid())}")

        with (self.folder / "console.log").open("ab") as console:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # systemd 256 and later boot on the unified hierarchy alone.
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
                preexec_fn=enter,
            )

    def wait_ready(self, within_s: float = BOOT_WITHIN_S) -> None:
        """Wait until systemd has started everything and sshd answers.

        Raises:
            MachineError: it did not come up in time, with the end of its console.
        """
        deadline = time.monotonic() + within_s

        def up() -> bool:
            if self._supervisor() is None:
                raise MachineError(f"{self.name} went off while it booted:\n{self.console[-4000:]}")
            if self.leader() is None:
                return False
            state = self.run(["systemctl", "is-system-running"], check=False).stdout.strip()
            return state in ("running", "degraded") and self._sshd_answers()

        self._poll(up, deadline, "did not come up")

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | None = None,
        stdin: str | bytes | None = None,
        check: bool = True,
        env: dict[str, str] | None = None,
        timeout_s: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on it, as at its own console: this works without a network, too.

        The environment is the user's own with ``env`` on top; the working directory is ``/``.

        Raises:
            MachineError: the machine is off; or ``check`` and the command failed.
            subprocess.TimeoutExpired: it took longer than ``timeout_s`` seconds.
        """
        done = self._execute(argv, user, stdin, env or {}, timeout_s)
        text = [part.decode(errors="replace") for part in (done.stdout, done.stderr)]
        if check and done.returncode:
            raise MachineError(
                f"{self.name}: {' '.join(argv)} ended with status {done.returncode}.\n"
                f"{text[0]}{text[1]}"
            )
        return subprocess.CompletedProcess(argv, done.returncode, *text)

    def put(
        self, path: str, content: str | bytes, *, mode: int = 0o644, owner: str = "root"
    ) -> None:
        """Write a file on it, with the folders that it lies in."""
        argv = ["install", "-D", f"--mode={mode:o}", f"--owner={owner}", f"--group={owner}"]
        self.run([*argv, "/dev/stdin", path], stdin=content or b"")

    def get(self, path: str) -> bytes:
        """Return the content of a file of the machine.

        Raises:
            MachineError: the file cannot be read.
        """
        done = self._execute(["cat", path], None, None, {}, 60)
        if done.returncode:
            raise MachineError(f"{self.name}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def ssh_argv(self) -> list[str]:
        """Return the `ssh` arguments that run a command on the machine as root over the network."""
        quiet = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        quiet += ["-o", "LogLevel=ERROR", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"]
        return ["ssh", "-i", str(self.ssh_key), *quiet, f"root@{self.address}"]

    def power_cut(self) -> None:
        """Kill the machine with SIGKILL and wait for its end; `boot` starts it again with its disk."""
        leader = self.kill()
        deadline = time.monotonic() + GONE_WITHIN_S

        def is_off() -> bool:
            ended = leader is None or has_ended(leader)
            return self._supervisor() is None and ended and not network.has_port(self._port)

        self._poll(is_off, deadline, "did not go off")
        (self.folder / "pid").unlink(missing_ok=True)

    def kill(self) -> int | None:
        """Kill the machine without waiting; return the process that was its `leader`."""
        leader, supervisor = self.leader(), self._supervisor()
        for pid in (supervisor, leader):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return leader

    def cut_cable(self) -> None:
        """Take it off the network; it runs on."""
        network.set_cable(self._port, "down")

    def mend_cable(self) -> None:
        """Put it back on the network."""
        network.set_cable(self._port, "up")

    def remove(self) -> None:
        """Switch it off and undo all that ``prepare`` and ``boot`` did."""
        self.power_cut()
        if os.path.ismount(self.root):
            subprocess.run(["umount", str(self.root)], check=True)
        for cgroup in self._cgroups():
            _remove_cgroup(cgroup)
        shutil.rmtree(self.folder)

    def leader(self) -> int | None:
        """Return the host's number of the machine's process 1; None while the machine is off."""
        supervisor = self._supervisor()
        if supervisor is None:
            return None
        for child in _children(supervisor):
            with suppress(OSError):
                status = Path(f"/proc/{child}/status").read_text()
                ids = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                if ids.split()[2:] == ["1"]:
                    return child
        return None

    def _execute(
        self,
        argv: Sequence[str],
        user: str | None,
        stdin: str | bytes | None,
        env: dict[str, str],
        timeout_s: float,
    ) -> subprocess.CompletedProcess[bytes]:
        leader = self.leader()
        if leader is None:
            raise MachineError(f"{self.name} is off")
        name = user or "root"
        enter = ["nsenter", f"--target={leader}"]
        enter += ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        become = ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups", "--reset-env"]
        variables = [f"{key}={value}" for key, value in ({"LANG": "C.UTF-8"} | env).items()]
        return subprocess.run(
            [*enter, *become, "env", *variables, *argv],
            input=stdin.encode() if isinstance(stdin, str) else stdin or b"",
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    def _supervisor(self) -> int | None:
        try:
            pid, started = (self.folder / "pid").read_text().split()
        except (FileNotFoundError, ValueError):  # ValueError: the child is about to write it
            return None
        if self._process is not None:
            self._process.poll()
        with suppress(OSError):
            alive = _start_time(int(pid)) == started and not has_ended(int(pid))
            return int(pid) if alive else None
        return None

    def _sshd_answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _poll(self, condition: Callable[[], bool], deadline: float, otherwise: str) -> None:
        while not condition():
            if time.monotonic() > deadline:
                raise MachineError(f"{self.name} {otherwise}:\n{self.console[-4000:]}")
            time.sleep(0.05)

    def _cgroups(self) -> list[Path]:
        """Return the machine's own cgroups, so that systemd leaves other machines' processes alone."""
        root = Path("/sys/fs/cgroup")
        found = [root] if (root / "cgroup.procs").exists() else [root / "unified", root / "systemd"]
        return [one / f"aitne-{self.slot}-{self.name}" for one in found if one.is_dir()]

    def _make_cgroups(self) -> list[Path]:
        made = self._cgroups()
        for cgroup in made:
            cgroup.mkdir(exist_ok=True)
        return made


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    return []


def has_ended(pid: int) -> bool:
    """Return whether a process has ended; its parent may not have read its exit status yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _start_time(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot.

    Together with the number it identifies the process (proc(5)).
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _remove_cgroup(cgroup: Path) -> None:
    if not cgroup.is_dir():
        return
    for below in cgroup.iterdir():
        if below.is_dir():
            _remove_cgroup(below)
    cgroup.rmdir()
