"""Stop and start of the platform for an upgrade, in the way in which it was started."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aitne.core.errors import SetupError
from aitne.local_system import settings_report
from aitne.local_system.settings_report import SourceKind
from aitne.local_system.state_file_reader import DamagedState
from aitne.supervisor import platform_control
from aitne.supervisor.per_user_accounts import plain_environment
from aitne.supervisor.process_account import ProcessAccount, acting_as, make_popen_arguments
from aitne.supervisor.supervisor_plan import SupervisorPlan, plan_dir

UNIT_WITHIN_S = 900.0
"""Seconds within which a unit must start; its own limit is usually shorter."""
GONE_WITHIN_S = 60.0
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Service:
    """Way in which the platform in ``data_dir`` is started: by systemd, or by `aitne up --detach`."""

    data_dir: Path
    unit: str | None
    account: ProcessAccount | None = None
    """Account of commands for the platform, if it is another one than that of this process."""

    def stop(self) -> None:
        """End the platform and leave its jobs running; return when its processes have ended.

        Raises:
            SetupError: it does not end.
        """
        if self.unit is not None:
            _run_systemctl("stop", self.unit)
        elif platform_control.get_status(self.data_dir) is not None:
            platform_control.stop_platform(self.data_dir, keep_jobs=True)
        until = time.monotonic() + GONE_WITHIN_S
        while platform_control.get_status(self.data_dir) is not None:
            if time.monotonic() > until:
                raise SetupError(
                    f"The platform in {self.data_dir} does not end. Check its log, "
                    f"{self.data_dir / 'logs' / 'supervisor.log'}."
                )
            time.sleep(LOOK_EVERY_S)

    def start(self, program: Path, report_waiting: Callable[[], None]) -> None:
        """Start the platform and wait until it is ready; ``report_waiting`` is called repeatedly
        meanwhile.

        Args:
            program: the program ``aitne`` of the release to start; a unit has its own path of it.

        Raises:
            SetupError: it does not start.
        """
        with self._start_process(program) as process:
            _wait_for_process(process, report_waiting)

    def restart(self, program: Path, report_waiting: Callable[[], None]) -> None:
        """End the platform, leave its jobs running, and start it. The arguments and errors are
        those of ``start``.
        """
        with self._start_process(program, replaces=True) as process:
            _wait_for_process(process, report_waiting)

    def _start_process(self, program: Path, *, replaces: bool = False) -> subprocess.Popen[str]:
        if self.unit is not None:
            # A unit without ExecReload= is restarted.
            verb = "reload-or-restart" if replaces else "start"
            argv, environ = ["systemctl", verb, self.unit], dict(os.environ)
        else:
            argv = [str(program), "up", "--detach", "--data-dir", str(self.data_dir)]
            argv += ["--replace"] if replaces else []
            environ = start_environment(self.data_dir, self.account)
        return subprocess.Popen(
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **make_popen_arguments(None if self.unit is not None else self.account),
        )


def find_service(data_dir: Path, account: ProcessAccount | None) -> Service | None:
    """Return how the platform that runs in ``data_dir`` was started; None if it does not run.
    ``account`` is that of commands for it.

    Raises:
        SetupError: it runs in the foreground of a terminal, or the process that answers is not its
            supervisor.
    """
    status = platform_control.get_status(data_dir)
    if status is None:
        return None
    pid = int(status["supervisor_pid"])
    if os.geteuid() == 0:
        # The answer comes from a folder of the platform's account, and root stops a unit because of it.
        _require_account(pid, account)
    if platform_control.is_detached(pid):
        return Service(data_dir, None, account)
    unit = _parse_unit(Path(f"/proc/{pid}/cgroup").read_text())
    if unit is None:
        raise SetupError(
            "The platform runs in the foreground of a terminal, from where an upgrade cannot restart "
            "it. Start it with `aitne up --detach`, or as a unit of systemd."
        )
    if os.geteuid() == 0:
        require_main_process(unit, pid, account)
    return Service(data_dir, unit, account)


def read_plan(data_dir: Path, account: ProcessAccount | None) -> SupervisorPlan:
    """Return the plan with which the platform was last started. Raises ``OSError`` or
    ``DamagedState``.
    """
    # Root has a folder of its own for plans, unless the account has started the platform.
    with acting_as(account):
        return SupervisorPlan.read(plan_dir(data_dir))


def start_environment(data_dir: Path, account: ProcessAccount | None) -> dict[str, str]:
    """Return the environment variables with which `aitne up` was started, and the options that it
    had, as variables.
    """
    try:
        plan = read_plan(data_dir, account)
    except (OSError, DamagedState):
        # It was never started. Another account does not see the secrets in root's environment.
        if account is None:
            return dict(os.environ)
        own = {name: value for name, value in os.environ.items() if name.startswith("AITNE_")}
        return plain_environment() | own
    return select_start_environment(plan.base_env)


def select_start_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which `aitne up` was started, from those of its processes, which
    have all settings.
    """
    environ = {name: value for name, value in base.items() if not name.startswith("AITNE_")}
    for name in ("AITNE_CONFIG", "AITNE_STATE_HOME"):
        if name in base:
            environ[name] = base[name]
    for name, source in json.loads(base.get(settings_report.VARIABLE, "{}")).items():
        if source[0] in (SourceKind.ENVIRONMENT, SourceKind.COMMAND_LINE) and name != "data_dir":
            value = _get_value(base, name.split("."))
            if value is not None:
                environ["AITNE_" + name.upper().replace(".", "__")] = value
    return environ


def _get_value(base: Mapping[str, str], path: list[str]) -> str | None:
    text = base.get(f"AITNE_{path[0].upper()}")
    if text is None or len(path) == 1:
        return text
    value: Any = json.loads(text)
    for part in path[1:]:
        value = value.get(part)
        if value is None:
            return None
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _wait_for_process(process: subprocess.Popen[str], report_waiting: Callable[[], None]) -> None:
    messages = deque[str](maxlen=8)

    def read() -> None:
        assert process.stderr is not None  # noqa: S101 (a pipe was requested)
        messages.extend(line.strip() for line in process.stderr)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while process.poll() is None:
        report_waiting()
        time.sleep(LOOK_EVERY_S)
    # The detached supervisor does not inherit the pipe, so it is closed now.
    reader.join()
    if process.returncode:
        raise SetupError(f"The platform does not start: {' '.join(messages)}")


def _parse_unit(cgroup: str) -> str | None:
    """Return the unit of systemd in the text of ``/proc/PID/cgroup``; None if there is none."""
    for line in cgroup.splitlines():
        path = line.rpartition(":")[2].strip().split("/")
        units = [part for part in path if part.endswith(".service")]
        if units and not units[-1].startswith("user@"):
            return units[-1]
    return None


def require_main_process(unit: str, pid: int, account: ProcessAccount | None) -> None:
    """Check that ``pid`` is the main process of a unit or its child, and that the main process belongs
    to the account. Raises ``SetupError``.
    """
    done = subprocess.run(
        ["systemctl", "show", "--property=MainPID", "--value", "--", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    main = int(done.stdout.strip() or 0)
    # The supervisor is a child of `aitne up`, or was started by a reload.
    if main == 0 or main not in (pid, int(_read_process_status(pid)["PPid"])):
        raise SetupError(
            f"The process {pid}, which answers as the platform, is not the main process of the unit "
            f"{unit} or its child, so the unit is not restarted. Start the platform with a unit of its "
            "own, such as that of `aitne admin setup`."
        )
    _require_account(main, account)


def _require_account(pid: int, account: ProcessAccount | None) -> None:
    uid, expected = (
        int(_read_process_status(pid)["Uid"].split()[0]),
        0 if account is None else account.uid,
    )
    if uid != expected:
        raise SetupError(
            f"The process {pid}, which answers as the platform, runs as uid {uid}, not as uid {expected}. "
            'With accounts.mode = "own" name the settings of root, such as '
            "`AITNE_CONFIG=/etc/aitne/aitne.toml`; otherwise end that process."
        )


def _read_process_status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as error:
        raise SetupError(f"The supervisor of the platform, process {pid}, has ended.") from error
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _run_systemctl(verb: str, unit: str) -> None:
    try:
        done = subprocess.run(
            ["systemctl", verb, unit],
            capture_output=True,
            text=True,
            timeout=UNIT_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"`systemctl {verb} {unit}` does not end.") from error
    if done.returncode:
        raise SetupError(f"`systemctl {verb} {unit}` has failed: {done.stderr.strip()}")
