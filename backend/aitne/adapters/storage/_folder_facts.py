"""Functions that all storage adapters use, for any file system."""

from __future__ import annotations

import os
import stat

from aitne.adapters.storage._mounts import Mount, Mounts
from aitne.core.models.storage_area import Area, AreaFacts


def read_folder_facts(area: Area, mounts: Mounts) -> tuple[AreaFacts, Mount | None]:
    """Return the facts about the area's folder, and its mount, or None if that is unknown. Blocks
    as long as the file system hangs.
    """
    try:
        # First, because an automounter mounts on access.
        facts = os.stat(area.path)
        error = None
    except OSError as failure:
        facts, error = None, failure
    try:
        missing, mount = mounts.find_missing_mount(area), mounts.find_mount(area.path)
    except OSError as failure:
        missing, mount, error = None, None, error or failure
    kind = None if mount is None else mount.kind
    if missing is not None:
        return make_absent_facts(
            area, f"No file system is mounted at {missing} on this machine."
        ), mount
    if error is not None or facts is None:
        return make_absent_facts(area, _format_problem(area, error), kind), mount
    if not stat.S_ISDIR(facts.st_mode):
        return make_absent_facts(area, f"{area.path} is not a folder.", kind), mount
    try:
        space = os.statvfs(area.path)
        total, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        problem = None
    except OSError as failure:
        total, free = None, None
        problem = f"The space of {area.path} cannot be determined: {failure.strerror}."
    readable = os.access(area.path, os.R_OK | os.X_OK)
    area_facts = AreaFacts(
        area=area,
        available=True,
        writable=os.access(area.path, os.W_OK | os.X_OK),
        file_system=kind,
        total_bytes=total,
        free_bytes=free,
        problem=problem or (None if readable else f"{area.path} is not readable."),
    )
    return area_facts, mount


def make_absent_facts(area: Area, problem: str, kind: str | None = None) -> AreaFacts:
    """Return the facts for an area whose folder is missing; ``problem`` is a sentence with the
    reason.
    """
    return AreaFacts(area=area, available=False, file_system=kind, problem=problem)


def _format_problem(area: Area, error: OSError | None) -> str:
    if isinstance(error, FileNotFoundError):
        return f"There is no folder {area.path}."
    return f"{area.path} cannot be inspected: {'' if error is None else error.strerror}."
