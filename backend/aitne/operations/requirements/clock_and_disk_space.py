"""Requirements of this machine: its clock, and space in folders."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from aitne.core.byte_size_format import describe_bytes
from aitne.core.settings import Settings
from aitne.operations.requirements.findings import (
    Finding,
    make_failed_finding,
    make_ok_finding,
    make_unknown_finding,
    make_warning_finding,
)

LITTLE_BYTES = 1 << 30
LITTLE_INODES = 10_000
_TIME_ERROR = 5
_TIMEX_BYTES = 208  # https://man7.org/linux/man-pages/man2/adjtimex.2.html


def check_clock() -> Finding:
    """Check whether the kernel's clock is disciplined by a time service."""
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state < 0:
        return make_unknown_finding(f"The kernel does not tell: {os.strerror(ctypes.get_errno())}.")
    if state == _TIME_ERROR:
        return make_warning_finding(
            "No time service keeps the clock of this machine.",
            "Install and start chrony (or systemd-timesyncd) here and on all nodes: tokens, "
            "certificates and Slurm's MUNGE fail when clocks differ.",
        )
    return make_ok_finding("A time service keeps the clock of this machine.")


def list_folders(settings: Settings) -> list[Path]:
    """Return the folders that the settings name."""
    software = settings.slurm.software_dir
    found = [
        settings.data_dir,
        settings.images_dir,
        settings.containers.tmp_dir,
        *([] if software is None else [software]),
        *settings.storage.datasets,
    ]
    return list(dict.fromkeys(found))


def check_space(folders: Iterable[Path]) -> Finding:
    """Check free bytes and inodes of folders, or of their nearest existing parents."""
    full, unseen, seen = [], [], set()
    for folder in folders:
        existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        try:
            usage = os.statvfs(existing)
        except OSError as error:
            unseen.append(f"{folder}: {error.strerror}")
            continue
        seen.add(folder)
        free = usage.f_bavail * usage.f_frsize
        if free < LITTLE_BYTES:
            full.append(f"{folder} ({describe_bytes(free, 'down')} free)")
        elif usage.f_files and usage.f_favail < LITTLE_INODES:
            full.append(f"{folder} ({usage.f_favail} inodes free)")
    if full:
        return make_failed_finding(
            f"There is little space in {', '.join(full)}.",
            "Free space there, or enlarge the file system: jobs and the platform fail when it is full.",
        )
    if unseen:
        return make_unknown_finding(
            f"These folders cannot be inspected: {'; '.join(unseen)}.", "Mount them again."
        )
    return make_ok_finding(f"All {len(seen)} folders have space and inodes.")
