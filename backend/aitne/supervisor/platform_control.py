"""Functions of ``aitne up``, ``stop_platform``, ``status`` and ``restart_process``, which start and control a
platform through its supervisor.

``start_platform`` and ``stop_platform`` never prompt. All functions raise ``SetupError`` with a sentence that says what
to do if the platform cannot be started or reached.

There are two ways to end a platform. ``stop_platform`` and Ctrl-C in the foreground also end its sessions
and jobs (a second Ctrl-C kills the processes). ``stop_platform`` with ``keep_jobs``, SIGTERM and a closed
terminal leave them running, and the next ``start_platform`` manages them again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.local_system import systemd_notification
from aitne.services.platform.certificate_authorities import ensure_certificates
from aitne.supervisor import (
    node_software_installation,
    offline_bundle,
    per_user_accounts,
    software_environments,
    start_checks,
)
from aitne.supervisor.__main__ import DETACH, HELD, MAIN_PROCESS
from aitne.supervisor.child_process import open_log, read_last_lines
from aitne.supervisor.plan_creation import envs_root, make_plan
from aitne.supervisor.process_account import ProcessAccount, acting_as
from aitne.supervisor.proxy_error_pages import write_pages
from aitne.supervisor.remaining_job_termination import end_remaining_jobs
from aitne.supervisor.secret_files import ensure_secrets
from aitne.supervisor.supervisor_plan import END_WITHIN_S, FAILURE, SOCKET, plan_dir

READY_WITHIN_S = 120.0
TRIES = 4
"""Number of starts of a process after which the start of the platform has failed, if the process
has never been ready.
"""
ANSWER_WITHIN_S = 10.0
LOOK_EVERY_S = 0.1
NOTES_WITHIN_S = 5.0
"""Seconds for which ``start_platform`` waits for the scheduler's notes; later ones are only in the controller's
log.
"""

Progress = Callable[[str], None]


class _Terminated(BaseException):
    """SIGTERM has arrived. Derived from BaseException, like KeyboardInterrupt, so that handlers of
    errors do not catch it.
    """


def start_platform(
    settings: Settings,
    *,
    detach: bool,
    progress: Progress,
    on_ready: Callable[[], None] | None = None,
    bundle: Path | None = None,
    replace: bool = False,
) -> None:
    """Start the platform. Return when it is ready (``detach``) or when it has ended (in the
    foreground).

    ``progress`` is called with one line per step. ``on_ready`` is called once ``/readyz`` returns
    200, also if the platform was already running. ``bundle`` is a folder from which missing
    environments are created, without the network. With ``replace`` a running platform is ended as
    soon as the processes of the new one are loaded; its jobs continue. It was started with
    ``detach``, or by the unit of systemd whose reload runs this, and the new one is started in the
    same way. In the foreground, Ctrl-C ends the platform with
    its jobs, a second Ctrl-C kills its processes; SIGTERM ends it and leaves the jobs running.

    Raises:
        SetupError: a requirement is not met; the message says what to do. In the foreground also if
            the supervisor ends unexpectedly.
    """
    data_dir = settings.data_dir
    ready = on_ready or (lambda: None)
    running = get_status(data_dir)
    replaced, unit = None, systemd_notification.find_reloaded_unit() if replace else None
    if unit is not None and (running is None or running["state"] == "stopping"):
        raise SetupError("The platform does not run, or is being stopped. Start its unit instead.")
    if running is not None and running["state"] != "stopping" and replace:
        replaced = _get_replaceable_pid(running, unit)
    elif running is not None and running["state"] != "stopping":
        progress(f"The platform in {data_dir} already runs at {running['url']}.")
        _wait_until_ready(data_dir, progress)
        ready()
        return
    elif running is not None:
        progress("The platform is being stopped; waiting for its end.")
        _wait_until_stopped(data_dir)
    began = time.monotonic()
    account = start_checks.check_requirements(settings, replaces=replaced is not None)
    with offline_bundle.use_bundle(bundle):
        ensure_software(settings, progress)
    with acting_as(account):
        ensure_secrets(settings.secrets_dir)
        if settings.tls.enabled:
            ensure_certificates(settings)
        write_pages(
            settings.run_dir / "pages", platform=settings.title, portal_url=settings.portal_url
        )
        settings.notes_file.unlink(missing_ok=True)
    if settings.uses_user_accounts:
        per_user_accounts.write_broker_config(settings)
    make_plan(settings, account).write(plan_dir(data_dir))
    (plan_dir(data_dir) / FAILURE).unlink(missing_ok=True)
    progress(f"Starting the platform in {data_dir}.")
    for note in start_checks.list_notes(settings):
        progress(note)
    options = [DETACH] if detach else ["--with-parent", str(os.getpid())]
    if unit is not None:
        options, detach = [MAIN_PROCESS], True
    options += ["--replace"] if replaced is not None else []
    supervisor = _launch_supervisor(data_dir, options, account)
    if detach:
        _raise_if_failed(supervisor.wait(), data_dir)
    with _stop_on_signals(data_dir, progress, enabled=not detach):
        _wait_until_ready(data_dir, progress, supervisor, replaced_pid=replaced)
        _store_last_data_dir(data_dir)
        _report_notes(settings, progress)
        progress(f"Ready at {settings.portal_url} after {time.monotonic() - began:.1f} s.")
        ready()
        if not detach:
            _wait_for_end(supervisor, data_dir)


def _get_replaceable_pid(running: dict[str, Any], unit: int | None) -> int:
    """Return the PID of the running supervisor, which is to be replaced.

    Args:
        running: status of the running platform.
        unit: PID of the main process of the systemd unit that is being reloaded; None: the platform
            does not run as a unit.

    Raises:
        SetupError: the platform was not started by this unit or, without a unit, by ``aitne up
            --detach``.
    """
    pid = int(running["supervisor_pid"])
    if unit is None and not is_detached(pid):
        raise SetupError(
            "Only a platform that `aitne up --detach` started can be replaced. This one runs in the "
            "foreground, where it is restarted, or as a unit of systemd: `systemctl reload aitne`."
        )
    if unit is not None and unit not in (pid, get_parent_pid(pid)):
        raise SetupError(
            f"The process {unit}, the main process of the unit, is not the platform that runs in "
            f"{running['data_dir']}. End that with `aitne down --keep-jobs`, and restart the unit."
        )
    return pid


def get_parent_pid(pid: int) -> int:
    """Return the PID of a process's parent. Raises ``OSError`` if the process has ended."""
    # The second field, the name, may contain any character.
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_detached(pid: int) -> bool:
    """Return whether the supervisor with this PID was started by `aitne up --detach`."""
    return DETACH in Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def ensure_software(settings: Settings, progress: Progress) -> None:
    """Create the missing environments of the platform and of its jobs. Raises ``SetupError``."""
    if not settings.capabilities.trusts_agents:
        node_software_installation.ensure_node_software(settings, progress)
        software_environments.ensure_environments(progress, ("hub", "proxy"), envs_root(settings))
    else:
        software_environments.ensure_environments(progress)


def stop_platform(
    data_dir: Path, *, keep_jobs: bool, progress: Progress = lambda line: None
) -> bool:
    """Stop the platform and, unless ``keep_jobs``, its sessions and jobs. Returns False if there
    was nothing to stop.

    If the platform is not running, jobs that it left running in this data directory are ended
    unless ``keep_jobs``. Jobs on a Slurm cluster always continue, because they do not depend on
    this machine.
    """
    lines = _send_request(data_dir, {"verb": "down", "keep_jobs": keep_jobs}, patience_s=None)
    spoke = False
    for line in lines:
        spoke = True
        if "progress" in line:
            progress(line["progress"])
    if spoke:
        _wait_until_stopped(data_dir)
        progress("The platform has ended.")
        return True
    return not keep_jobs and end_remaining_jobs(data_dir, progress)


def get_status(data_dir: Path) -> dict[str, Any] | None:
    """Return the status of the supervisor and its processes; None if the supervisor is not running.

    ``{"state": "starting" | "ready" | "degraded" | "stopping", "url", "sessions_url", "data_dir",
    "supervisor_pid", "since", "processes": [{"name", "pid", "port", "memory_bytes", "restarts",
    "since"}]}``
    """
    return next(_send_request(data_dir, {"verb": "status"}), None)


def _query_addresses(data_dir: Path) -> dict[str, Any] | None:
    return next(_send_request(data_dir, {"verb": "where"}), None)


def restart_process(data_dir: Path, name: str) -> None:
    """End one of the platform's processes; the supervisor then starts it again.

    Raises:
        SetupError: the platform is not running, or has no process of that name.
    """
    answer = next(_send_request(data_dir, {"verb": "restart", "name": name}), None)
    if answer is None or "error" in answer:
        raise SetupError(
            f"{name} cannot be restarted: {(answer or {}).get('error', 'the platform is not running')}"
        )


def find_last_data_dir() -> Path | None:
    """Return the data directory of the platform that ``start_platform`` last started; None if there is none."""
    try:
        return Path(_current_file().read_text().strip())
    except FileNotFoundError:
        return None


def _current_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "aitne" / "current"


def _store_last_data_dir(data_dir: Path) -> None:
    path = _current_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(f"{data_dir}\n")
    temporary.replace(path)


def _launch_supervisor(
    data_dir: Path, options: list[str], account: ProcessAccount | None
) -> subprocess.Popen[bytes]:
    with open_log(data_dir / "logs" / "supervisor.log", account) as log:
        return subprocess.Popen(
            # -P: nothing is imported from the working directory.
            [sys.executable, "-P", "-m", "aitne.supervisor", str(plan_dir(data_dir)), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=data_dir,
            # Ctrl-C is for the command, which then decides what is to be done.
            start_new_session=True,
        )


def _raise_if_failed(exit_status: int, data_dir: Path) -> None:
    if exit_status not in (0, HELD):
        raise SetupError(
            f"The supervisor did not start.\n{_read_last_log_lines(data_dir, 'supervisor')}"
        )


def _wait_until_ready(
    data_dir: Path,
    progress: Progress,
    supervisor: subprocess.Popen[bytes] | None = None,
    *,
    replaced_pid: int | None = None,
) -> None:
    """Wait until the platform is ready.

    Args:
        supervisor: process of the supervisor, whose end is an error; None: not known.
        replaced_pid: PID of the supervisor that is being replaced, whose responses do not count; None:
            the platform replaces no other.

    Raises:
        SetupError: the supervisor has ended, or the platform is not ready in time.
    """
    give_up = time.monotonic() + READY_WITHIN_S
    failure = plan_dir(data_dir) / FAILURE
    ready_names: set[str] = set()
    spoke = time.monotonic()
    while True:
        answer = next(_send_request(data_dir, {"verb": "status", "brief": True}), None)
        if answer is None:
            if failure.exists():
                raise SetupError(failure.read_text().strip())
            exited = supervisor is not None and supervisor.poll() not in (None, 0, HELD)
            if exited or time.monotonic() - spoke > ANSWER_WITHIN_S:
                raise SetupError(
                    f"The supervisor ended.\n{_read_last_log_lines(data_dir, 'supervisor')}"
                )
            time.sleep(LOOK_EVERY_S)
            continue
        spoke = time.monotonic()
        if replaced_pid is not None and answer["supervisor_pid"] == replaced_pid:
            if failure.exists():
                raise SetupError(failure.read_text().strip())
            if time.monotonic() > give_up:
                raise SetupError(
                    "The running platform was not replaced and continues.\n"
                    + _read_last_log_lines(data_dir, "supervisor")
                )
            time.sleep(LOOK_EVERY_S)
            continue
        if answer["state"] == "ready":
            return
        for process in answer["processes"]:
            if process["answers"] and process["name"] not in ready_names:
                ready_names.add(process["name"])
                progress(f"{process['name']} is up.")
            if process["restarts"] >= TRIES and answer["state"] == "starting":
                stop_platform(data_dir, keep_jobs=True)
                raise SetupError(
                    f"{process['name']} does not start. Its log ends with:\n"
                    f"{_read_last_log_lines(data_dir, process['name'])}"
                )
        if time.monotonic() > give_up:
            missing = {"api", "controller", "hub", "proxy"} - ready_names
            name = min(missing, default="api")
            raise SetupError(
                f"The platform is not ready after {READY_WITHIN_S:.0f} s: no answer of "
                f"{', '.join(sorted(missing)) or 'its API'}. It continues to try; `aitne down` "
                f"ends it. The log of {name} ends with:\n{_read_last_log_lines(data_dir, name)}"
            )
        time.sleep(LOOK_EVERY_S)


def _report_notes(settings: Settings, progress: Progress) -> None:
    """Report the controller's notes for administrators to ``progress``: about the scheduler, and
    about users that share an account.
    """
    give_up = time.monotonic() + NOTES_WITHIN_S
    while time.monotonic() < give_up:
        if settings.notes_file.exists():
            for note in settings.notes_file.read_text().splitlines():
                progress(note)
            return
        time.sleep(LOOK_EVERY_S)


def _wait_for_end(supervisor: subprocess.Popen[bytes], data_dir: Path) -> None:
    status = supervisor.wait()
    if status != 0:
        raise SetupError(
            f"The supervisor ended with status {status}, and all processes of the platform with it. "
            f"Its log ends with:\n{_read_last_log_lines(data_dir, 'supervisor')}"
        )


def _wait_until_stopped(data_dir: Path) -> None:
    give_up = time.monotonic() + 2 * END_WITHIN_S
    while _query_addresses(data_dir) is not None and time.monotonic() < give_up:
        time.sleep(LOOK_EVERY_S)


def _read_last_log_lines(data_dir: Path, name: str) -> str:
    log = data_dir / "logs" / f"{name}.log"
    return f"{read_last_lines(log)}\n(all of it: {log})"


@contextmanager
def _stop_on_signals(data_dir: Path, progress: Progress, *, enabled: bool) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM in the foreground during the ``with`` block.

    Ctrl-C ends the platform and its jobs, a second one kills the processes; SIGTERM ends the
    platform and leaves the jobs running. The block then ends without an error, because the end was
    requested.
    """

    def on_term(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    if not enabled:
        yield
        return
    before = signal.signal(signal.SIGTERM, on_term)
    try:
        yield
    except KeyboardInterrupt:
        try:
            stop_platform(data_dir, keep_jobs=False, progress=progress)
        except KeyboardInterrupt:
            progress("Ending all processes at once.")
            next(_send_request(data_dir, {"verb": "hurry"}), None)
            _wait_until_stopped(data_dir)
    except _Terminated:
        stop_platform(data_dir, keep_jobs=True, progress=progress)
    finally:
        signal.signal(signal.SIGTERM, before)


def _send_request(
    data_dir: Path, request: dict[str, Any], *, patience_s: float | None = ANSWER_WITHIN_S
) -> Iterator[dict[str, Any]]:
    """Send a request to the supervisor and yield its responses. Yields nothing if the supervisor is
    not running.

    Args:
        patience_s: seconds to wait for each response; None: no limit.
    """
    try:
        folder = os.open(data_dir / "run", os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(patience_s)
            # A socket path has at most 107 bytes, and data directories may be deeply nested.
            line.connect(f"/proc/self/fd/{folder}/{SOCKET}")
            line.sendall(json.dumps(request).encode() + b"\n")
            line.shutdown(socket.SHUT_WR)
            with line.makefile("rb") as answers:
                for answer in answers:
                    yield json.loads(answer)
    except OSError:
        return
    finally:
        os.close(folder)
