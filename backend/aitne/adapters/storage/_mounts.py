"""Mounted file systems of this machine, and those that ``/etc/fstab`` requires."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aitne.core.models.storage_area import Area
from aitne.core.storage.areas import is_within

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: a line of ``/proc/self/mountinfo`` (proc(5))."""

    point: str
    kind: str
    """Type of the file system: ``ext4``, ``nfs4``, ``autofs``, …"""
    options: tuple[str, ...]
    """Options of the mount, followed by those of the file system."""

    def option(self, name: str) -> str | None:
        """Return the value of ``name=value`` in the options, or None if it is missing."""
        prefix = f"{name}="
        return next((o.removeprefix(prefix) for o in self.options if o.startswith(prefix)), None)


@dataclass(frozen=True, slots=True)
class Mounts:
    """Reader of the kernel's ``mountinfo`` and of ``fstab``. It never accesses the mounted file
    systems, so it never blocks.
    """

    mountinfo: Path = Path("/proc/self/mountinfo")
    fstab: Path = Path("/etc/fstab")

    def find_mount(self, path: str) -> Mount | None:
        """Return the mount that contains ``path``, by comparing the path with the mount points;
        None if there is none.
        """
        match = None
        for mount in self._read_mounts():
            above = mount.point == "/" or is_within(path, [mount.point])
            # Of several at one point the last covers the others.
            if above and (match is None or len(mount.point) >= len(match.point)):
                match = mount
        return match

    def find_missing_mount(self, area: Area) -> str | None:
        """Return the mount point of the area according to ``/etc/fstab`` if nothing is mounted
        there now; otherwise None.

        Access the area before this call: an automounter mounts only on access.
        """
        expected = area.mount or self._find_expected_mount_point(area.path)
        if expected is None:
            return None
        expected_path = Path(expected)
        points = (mount for mount in self._read_mounts() if mount.kind != "autofs")
        return None if any(Path(mount.point) == expected_path for mount in points) else expected

    def _find_expected_mount_point(self, path: str) -> str | None:
        """Return the mount point in ``/etc/fstab`` that is the closest parent of ``path``; None if
        there is none.
        """
        try:
            lines = self.fstab.read_text(errors="surrogateescape").splitlines()
        except OSError:
            return None
        fields = (line.split() for line in lines if not line.lstrip().startswith("#"))
        points = [
            _decode_octal(parts[1])
            for parts in fields
            if len(parts) >= 4 and "noauto" not in parts[3].split(",")
        ]
        above = [point for point in points if is_within(path, [point])]
        return max(above, key=len, default=None)

    def _read_mounts(self) -> Sequence[Mount]:
        text = self.mountinfo.read_text(errors="surrogateescape")
        return [mount for line in text.splitlines() if (mount := _parse_mount(line)) is not None]


def _parse_mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    about, kind = before.split(), after.split()
    if len(about) < 6 or len(kind) < 3:
        return None
    options = (*about[5].split(","), *kind[2].split(","))
    return Mount(_decode_octal(about[4]), kind[0], options)


def _decode_octal(text: str) -> str:
    """Decode blanks and similar characters, which ``/proc/self/mountinfo`` writes as octal numbers."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
