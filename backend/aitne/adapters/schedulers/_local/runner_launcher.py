"""Start of runners, their identification after a restart, and termination of processes that they
left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aitne
from aitne.adapters.schedulers._local import procfs, runner
from aitne.adapters.schedulers._local.account_switch import JobAccount
from aitne.adapters.schedulers._local.job_records import write_atomically
from aitne.local_system.state_file_reader import parse_state_document

MARK = "AITNE_RUNNER_ID"
"""Environment variable of every process of a job. It identifies processes that remain after their
runner was killed.
"""
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from aitne.adapters.schedulers._local.runner import main; main(sys.argv[2:])"
)
_PACKAGE_ROOT = str(Path(aitne.__file__).parents[1])
_GRACE_FOR_ORPHANS_S = 2.0
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identity of a runner's process and of the session leader that it started. It stays valid when
    process IDs are reused. The process may have ended.
    """

    pid: int
    """PID of the runner."""
    start: int
    """Start time of the runner, in clock ticks since boot."""
    boot: str
    """ID of the boot in which the runner was started."""
    leader: int = 0
    """PID of the session leader; 0: unknown."""
    leader_start: int = 0
    """Start time of the session leader, in clock ticks since boot; 0: unknown."""
    started_at: float = 0.0
    """Time at which the run started, in seconds since 1970."""

    def open_pidfd(self) -> int | None:
        """Open a pidfd of the process with this PID, start time and boot ID; None if that process
        has ended, even if its PID belongs to another process now.
        """
        if self.boot != procfs.boot_id():
            return None
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return None
        if procfs.start_time(self.pid) != self.start:
            os.close(handle)
            return None
        return handle


def launch_runner(
    run_dir: Path,
    *,
    job_dir: str,
    environment: Mapping[str, str],
    log: str,
    time_limit_s: float,
    memory_bytes: int,
    grace_s: float,
    account: JobAccount | None,
) -> ProcessIdentity:
    """Start a detached runner for the run in ``run_dir``; return once the job's script has started
    and the runner accepts commands.

    ``grace_s`` is the time in seconds between the signal to terminate and the kill. ``account`` is
    the job's account if this process is root; the script may then start slightly later, and a
    failure of that start is reported as the outcome of the run.

    Raises:
        OSError: the runner could not be started; no process of the job runs.
    """
    process = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-c", _BOOT, _PACKAGE_ROOT),
            *(str(run_dir), job_dir, log, repr(time_limit_s), str(memory_bytes), repr(grace_s)),
            "" if account is None else str(account),
        ],
        cwd=job_dir if account is None else "/",
        env={**environment, MARK: make_run_mark(run_dir)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    # Both streams end when the runner closes them: it keeps none of our descriptors open.
    answer, errors = process.communicate()
    identity = read_identity(run_dir)
    # Even without an answer, a claim means that the script may have started: its end must be settled.
    if identity is None or answer.startswith((runner.FAILED, runner.TAKEN)):
        message = answer.removeprefix(runner.FAILED).decode(errors="replace").strip()
        raise OSError(message or errors.decode(errors="replace").strip()[-500:] or "no answer")
    return identity


def make_run_mark(run_dir: Path) -> str:
    """Return the value of the environment variable ``MARK`` in the processes of this run: the run's
    folder, which is unique on this machine.
    """
    return str(run_dir)


def read_identity(run_dir: Path) -> ProcessIdentity | None:
    """Return the identity of the run's runner; None if no runner has claimed the run (registered
    itself as its executor).
    """
    record = read_json(run_dir / runner.RUNNER)
    if record is None or "pid" not in record:
        return None
    return parse_state_document(ProcessIdentity, record)


def close_unclaimed_run(run_dir: Path) -> bool:
    """Mark a run that no runner has claimed so that it can never start; return False if a runner
    has claimed it already.
    """
    claim = run_dir / "given-up"
    claim.write_text("{}\n")
    try:
        os.link(claim, run_dir / runner.RUNNER)
    except FileExistsError:
        return False
    finally:
        claim.unlink()
    return True


def read_exit(run_dir: Path) -> dict[str, object] | None:
    """Return the content of ``exit.json``, which says how the run ended; None if the run has not
    ended, or its runner was killed.
    """
    return read_json(run_dir / runner.EXIT)


def write_control(run_dir: Path, *, time_limit_s: float, cancel: bool) -> None:
    """Write ``control.json``, the commands for the runner, which reads it when it receives a
    signal.
    """
    orders = {"time_limit_s": time_limit_s, "cancel": cancel}
    write_atomically(run_dir / runner.CONTROL, json.dumps(orders).encode())


def read_control(run_dir: Path) -> dict[str, object]:
    """Return the content of the run's ``control.json``, the latest commands for the runner."""
    return read_json(run_dir / runner.CONTROL) or {}


def terminate_orphans(run_dir: Path, identity: ProcessIdentity | None) -> None:
    """Terminate every process of a run whose runner has ended; return when none is left.

    The processes are recognized by the variable ``MARK`` in their environment, by the session of
    the run's script, or as descendants of such a process.
    """
    if identity is not None and identity.boot != procfs.boot_id():
        return
    signalled_pids: set[int] = set()
    kill_after = time.monotonic() + _GRACE_FOR_ORPHANS_S
    pause, misses = 0.01, 0
    while True:
        orphans = _find_orphans(run_dir, identity)
        # During an exec a process shows no environment, so a single scan proves nothing.
        misses = 0 if orphans else misses + 1
        if misses == _LOOKS:
            return
        deadly = time.monotonic() >= kill_after
        for pid, started in orphans.items():
            if deadly or pid not in signalled_pids:
                signalled_pids.add(pid)
                number = signal.SIGKILL if deadly else signal.SIGTERM
                procfs.signal_process(pid, started, number)
        time.sleep(pause)
        pause = min(pause * 2, 0.2)


def _find_orphans(run_dir: Path, identity: ProcessIdentity | None) -> dict[int, int]:
    mark = os.fsencode(f"{MARK}={make_run_mark(run_dir)}")
    # A session's ID identifies it only while its leader is the process that we started.
    session = (
        identity.leader
        if identity is not None
        and identity.leader
        and procfs.start_time(identity.leader) == identity.leader_start
        else None
    )
    orphans: dict[int, int] = {}
    for pid in procfs.list_process_ids():
        in_session = session is not None and procfs.session_of(pid) == session
        if in_session or procfs.has_variable(pid, mark):
            started = procfs.start_time(pid)
            if started is not None:
                orphans[pid] = started
    for pid in list(orphans):
        orphans |= procfs.list_descendants(pid)
    return orphans


def read_json(path: Path) -> dict[str, object] | None:
    """Read a JSON object from a file; None if the file does not exist or was truncated by a power
    failure.
    """
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) else None
