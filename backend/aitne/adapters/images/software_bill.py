"""The software bill of an image: the Debian and Python packages in its root file system.

The image may come from an untrusted source, so no symbolic link is followed, and a file is read
only up to the size that such a file can reasonably have.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from aitne.core.models.image import Package

DEBIAN, PYTHON = "debian", "python"
STATUS = "var/lib/dpkg/status"
METADATA = ".dist-info/METADATA"
DEBIAN_PYTHON = "usr/lib/python3/dist-packages/"
"""Folder of Python packages that Debian installs; they are listed only as Debian packages."""
_MAX_STATUS_BYTES = 64 << 20
_MAX_METADATA_BYTES = 4 << 20
_MAX_LENGTH = 300
_MAX_DEPTH = 12


def read_software_bill(root: Path) -> tuple[Package, ...]:
    """Return all packages that are installed below the folder ``root``, without duplicates: first
    Debian's, then Python's, each sorted by name.
    """
    place = root / STATUS
    inside = place.resolve().is_relative_to(root.resolve())
    status = _read_small_file(place, _MAX_STATUS_BYTES) if inside else ""
    texts = (_read_small_file(path, _MAX_METADATA_BYTES) for path in find_metadata_files(root))
    return merge_software_bills(
        parse_debian_packages(status), filter(None, map(parse_python_package, texts))
    )


def merge_software_bills(*parts: Iterable[Package]) -> tuple[Package, ...]:
    """Merge several software bills into one that is sorted and has no duplicates."""
    unique = {package for part in parts for package in part}
    return tuple(
        sorted(unique, key=lambda package: (package.source, package.name, package.version))
    )


def parse_debian_packages(status: str) -> list[Package]:
    """Return the installed packages in the text of a dpkg status file (deb822(5)); malformed
    entries are skipped.
    """
    packages = []
    for paragraph in status.split("\n\n"):
        fields = _parse_fields(paragraph)
        name, version = fields.get("package"), fields.get("version")
        # `want eflag status`, the last of which is the actual state (dpkg-query(1)).
        if name and version and fields.get("status", "").split()[-1:] == ["installed"]:
            packages.append(Package(name=name, version=version, source=DEBIAN))
    return packages


def parse_python_package(metadata: str) -> Package | None:
    """Return the package that the text of a ``METADATA`` file (core metadata) describes, or None if
    the text names no valid package.
    """
    fields = _parse_fields(metadata.partition("\n\n")[0])
    name, version = fields.get("name"), fields.get("version")
    return Package(name=name, version=version, source=PYTHON) if name and version else None


def is_metadata_path(path: str) -> bool:
    """Return True if ``path``, relative to the image's root, is the metadata file of a Python
    package that Debian did not install.
    """
    return path.endswith(METADATA) and not path.startswith(DEBIAN_PYTHON)


def find_metadata_files(root: Path) -> Iterator[Path]:
    """Yield every metadata file below ``root``."""
    for folder, names, _ in os.walk(root):
        here = Path(folder).relative_to(root)
        if len(here.parts) >= _MAX_DEPTH:
            names.clear()
        for name in names:
            path = (here / name / "METADATA").as_posix()
            if name.endswith(".dist-info") and is_metadata_path(path):
                yield root / path


def _parse_fields(paragraph: str) -> dict[str, str]:
    """Return the first line of each field of a deb822 paragraph. A field with an invalid value is
    omitted.
    """
    fields: dict[str, str] = {}
    for line in paragraph.splitlines():
        name, colon, value = line.partition(":")
        value = value.strip()
        if colon and not line[:1].isspace() and value.isprintable() and len(value) <= _MAX_LENGTH:
            fields.setdefault(name.strip().lower(), value)
    return fields


def _read_small_file(path: Path, max_bytes: int) -> str:
    """Return the text of a regular file of at most ``max_bytes`` bytes; an empty text for any other
    file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as stream:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_size > max_bytes:
            return ""
        return stream.read(max_bytes).decode(errors="replace")
