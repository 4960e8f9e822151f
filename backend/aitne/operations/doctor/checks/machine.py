"""Checks of the machine: clock, time zone, limits of processes, and the service manager."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from pathlib import Path
from zoneinfo import ZoneInfo

from aitne.operations.doctor.check_registry import Subject, check
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.operations.requirements.clock_and_disk_space import check_clock
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_skipped_finding,
    make_unknown_finding,
    make_warning_finding,
)

FEW_FILES = 4_096
_UNITS = ("aitne.service", "aitne-broker.service")
_ANSWER_WITHIN_S = 5.0


@check("clock", Subject.MACHINE, "The clock of this machine is synchronized.")
def check_clock_sync(host: CheckedHost) -> Finding:
    """Check whether the kernel's clock is disciplined by a time service."""
    return check_clock()


@check("time-zone", Subject.MACHINE, "The time zone of this machine exists.")
def time_zone(host: CheckedHost) -> Finding:
    """Check the time zone, in which Slurm's commands print times for administrators."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if name:
        try:
            ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            return make_warning_finding(
                f"TZ={name} names no time zone, so local times are UTC.",
                "Correct TZ, or install the package tzdata.",
            )
        return make_ok_finding(f"The time zone is {name} (TZ).")
    link = Path("/etc/localtime")
    if link.is_symlink() and not link.exists():
        return make_warning_finding(
            f"/etc/localtime is a link to {os.readlink(link)}, which does not exist.",
            "Run `timedatectl set-timezone ZONE`, or install the package tzdata.",
        )
    zone = os.readlink(link).partition("zoneinfo/")[2] if link.is_symlink() else ""
    return make_ok_finding(
        f"The time zone is {zone or 'that of /etc/localtime' if link.exists() else 'UTC'}."
    )


@check("open-files", Subject.MACHINE, "The platform's processes may open enough files.")
def open_files(host: CheckedHost) -> Finding:
    """Check the limit of open files of the API, or of this process while the platform is down."""
    pids = {one["name"]: one["pid"] for one in (host.status or {}).get("processes", [])}
    if pids.get("api"):
        text = Path("/proc", str(pids["api"]), "limits").read_text()
        match = re.search(r"^Max open files\s+(\S+)\s+(\S+)", text, re.MULTILINE)
        if match is None:
            return make_unknown_finding("The kernel does not tell the limit of the API.")
        limit, whose = (1 << 30 if match[2] == "unlimited" else int(match[2])), "the API"
    else:
        limit, whose = resource.getrlimit(resource.RLIMIT_NOFILE)[1], "this process"
        limit = 1 << 30 if limit == resource.RLIM_INFINITY else limit
    if limit < FEW_FILES:
        return make_warning_finding(
            f"{whose[0].upper()}{whose[1:]} may open {limit} files at most; each open page of the "
            "portal needs one.",
            "Set LimitNOFILE=65536 in aitne.service, and restart it.",
        )
    return make_ok_finding(f"{whose[0].upper()}{whose[1:]} may open {limit} files.")


@check("watchdog", Subject.MACHINE, "systemd restarts the platform and the broker when they fail.")
def check_systemd_units(host: CheckedHost) -> Finding:
    """Check the units of systemd: restart, watchdog, and start at boot."""
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemctl") is None:
        return make_skipped_finding("This machine does not run systemd.")
    states = {unit: _read_unit(unit) for unit in _UNITS}
    present = {unit: state for unit, state in states.items() if state.get("LoadState") == "loaded"}
    if not present:
        return make_skipped_finding(
            f"There is no unit {' or '.join(_UNITS)}: the platform was started by hand."
        )
    wrong = [
        f"{unit}: {problem}"
        for unit, state in present.items()
        for problem in list_unit_problems(state)
    ]
    if wrong:
        return make_warning_finding(
            f"systemd does not look after the platform as it should. {'; '.join(wrong)}.",
            "Correct the units as docs/howto/slurm.md shows them, then run `systemctl daemon-reload`.",
        )
    return make_ok_finding(f"systemd restarts {' and '.join(present)} when they fail.")


def list_unit_problems(state: dict[str, str]) -> list[str]:
    """Return what is wrong with a unit, given its properties as systemctl shows them. The watchdog of
    a unit that is not active is not judged: until its start systemd shows none.
    """
    problems = []
    if state.get("Restart") in ("no", "never", ""):
        problems.append("it is not restarted (Restart=always)")
    if state.get("Type") != "notify":
        problems.append("it does not notify systemd, so it has no watchdog (Type=notify)")
    elif state.get("WatchdogUSec") in ("0", "infinity") and state.get("ActiveState") == "active":
        problems.append("its watchdog is disabled (WatchdogSec=60)")
    if state.get("UnitFileState") in ("disabled", "masked"):
        problems.append(f"it is {state['UnitFileState']}, so it does not start at boot")
    if state.get("ActiveState") == "failed":
        problems.append("it has failed; `systemctl status` and its journal say why")
    return problems


def _read_unit(name: str) -> dict[str, str]:
    names = "LoadState,ActiveState,UnitFileState,Type,Restart,WatchdogUSec"
    output = subprocess.run(
        ["systemctl", "show", name, f"--property={names}"],
        capture_output=True,
        text=True,
        timeout=_ANSWER_WITHIN_S,
        check=False,
    ).stdout
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


@check("memory", Subject.MACHINE, "This machine has free memory.")
def check_free_memory(host: CheckedHost) -> Finding:
    """Check the available memory, and whether the kernel has killed for lack of it recently."""
    facts = dict(
        line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line
    )
    total = int(facts["MemTotal"].split()[0])
    available = int(facts.get("MemAvailable", facts["MemFree"]).split()[0])
    share = available / total
    if share < 0.05:
        return make_failed_finding(
            f"Only {available // 1024} MiB of {total // 1024} MiB of memory are available.",
            "End what uses it (`ps aux --sort=-rss`), or give the machine more: the kernel kills "
            "processes next.",
        )
    return make_ok_finding(
        f"{available // 1024} MiB of {total // 1024} MiB of memory are available."
    )
