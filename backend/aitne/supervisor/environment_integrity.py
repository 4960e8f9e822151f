"""Comparison of an environment with its lock file.

A job that runs as the platform's own account can change the environment of sessions, because its
``pip`` is that of the environment.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

_METADATA = re.compile(r"(?P<name>[^-]+)-(?P<version>.+)\.dist-info")


def list_changed_packages(folder: Path, lock: Path, *, files: bool = False) -> list[str]:
    """Return the lines of the lock file whose packages are missing in the environment or have
    another version; with ``files`` also those of which a file is missing or has another size.
    Packages that the lock file does not name are ignored.
    """
    metadata: dict[str, list[Path]] = {}
    for path in folder.glob("lib/python*/site-packages/*.dist-info"):
        match = _METADATA.fullmatch(path.name)
        if match is not None:
            metadata.setdefault(_normalize_name(match["name"]), []).append(path)
    return [
        line
        for line in lock.read_text().split()
        if not _is_intact(
            metadata.get(_normalize_name(line.partition("==")[0]), []), line, files=files
        )
    ]


def _is_intact(metadata: list[Path], line: str, *, files: bool) -> bool:
    if len(metadata) != 1:
        return False
    match = _METADATA.fullmatch(metadata[0].name)
    if match is None or match["version"] != line.partition("==")[2]:
        return False
    return not files or _has_its_files(metadata[0])


def _has_its_files(metadata: Path) -> bool:
    """Return whether the files that the package's record lists exist with their sizes."""
    try:
        with (metadata / "RECORD").open(newline="") as record:
            for path, _, size in csv.reader(record):
                if size and (metadata.parent / path).stat().st_size != int(size):
                    return False
    except (OSError, ValueError, csv.Error):
        return False
    return True


def _normalize_name(name: str) -> str:
    """Return a package's name in the form in which equal names are equal texts."""
    return re.sub(r"[-_.]+", "-", name).lower()
