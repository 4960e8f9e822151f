"""Adaptation of programs that were built with a newer C library to an older one, for functions
where this is harmless.

glibc 2.38 gave ``strtol`` and related functions a second version that also reads ``0b1``. A program
compiled with it requires ``__isoc23_strtol@GLIBC_2.38`` and does not start with an older glibc,
although ``strtol`` would be sufficient. So the reference to the symbol's name is moved past the
nine letters of ``__isoc23_`` in the same string, and the required version is replaced by the one
that ``strtol`` has always had.
"""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = b"\x7fELF"
_PREFIX = "__isoc23_"
_HARMLESS = ("__isoc23_strtol", "__isoc23_strtoul", "__isoc23_strtoll", "__isoc23_strtoull")
_OLDEST = "GLIBC_2.2.5"
"""Symbol version of the first C library on x86-64, which ``strtol`` has (elf/ldd,
``shlib-versions`` of glibc).
"""
Version = tuple[int, ...]


class NotMovable(ValueError):
    """Error: the program cannot be adapted to the older C library, because it uses something that
    only the newer one has.
    """


def unpin_program(content: bytes, have: Version) -> bytes | None:
    """Return the program ``content`` adapted to a C library of version ``have``, such as ``(2,
    36)``; None if it runs with that library unchanged.

    Raises:
        NotMovable: the file is not a 64-bit little-endian ELF, is damaged, or uses something that
            the library does not have.
    """
    try:
        return _unpin_versions(bytearray(content), have)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError) as error:
        if isinstance(error, NotMovable):
            raise
        raise NotMovable(f"it cannot be read as an ELF file: {error}") from error


def unpin_file(path: Path, have: Version) -> bool:
    """Apply ``unpin_program`` to a file in place; return True if the file was changed. Raises
    ``NotMovable`` and ``OSError``.
    """
    try:
        changed = unpin_program(path.read_bytes(), have)
    except NotMovable as error:
        raise NotMovable(f"{path}: {error}") from error
    if changed is not None:
        with path.open("r+b") as stream:
            stream.write(changed)
    return changed is not None


def _unpin_versions(data: bytearray, have: Version) -> bytes | None:
    if data[:4] != MAGIC or data[4:6] != b"\x02\x01":
        raise NotMovable("it is not a 64-bit little-endian ELF file")
    sections = _read_sections(data)
    if ".gnu.version_r" not in sections:
        return None  # linked without libraries
    strings = sections[".dynstr"][0]
    needs = _read_version_needs(data, sections[".gnu.version_r"][0], strings)
    newer = {
        index
        for index, (library, version, _) in needs.items()
        if library.startswith("libc.so") and _parse_libc_version(version) > have
    }
    if not newer:
        return None
    oldest = next((entry for _, name, entry in needs.values() if name == _OLDEST), None)
    if oldest is None:
        raise NotMovable(f"it does not use {_OLDEST}, which would replace the newer version")
    symbols, size = sections[".dynsym"]
    versions = sections[".gnu.version"][0]
    for number in range(size // 24):
        (index,) = struct.unpack_from("<H", data, versions + 2 * number)
        if index & 0x7FFF not in newer:
            continue
        (name_at,) = struct.unpack_from("<I", data, symbols + 24 * number)
        name = _read_string(data, strings + name_at)
        if name not in _HARMLESS:
            raise NotMovable(f"it needs {name}@{needs[index & 0x7FFF][1]}")
        struct.pack_into("<I", data, symbols + 24 * number, name_at + len(_PREFIX))
    version_hash, _, _, version_name, _ = struct.unpack_from("<IHHII", data, oldest)
    for index in newer:
        entry = needs[index][2]
        struct.pack_into("<I", data, entry, version_hash)
        struct.pack_into("<I", data, entry + 8, version_name)
    return bytes(data)


def _read_sections(data: bytearray) -> dict[str, tuple[int, int]]:
    """Return the offset and size in bytes of each ELF section, by name (elf(5))."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + n * size) for n in range(count)]
    names = headers[names_at][4]
    return {_read_string(data, names + header[0]): (header[4], header[5]) for header in headers}


def _read_version_needs(data: bytearray, at: int, strings: int) -> dict[int, tuple[str, str, int]]:
    """Parse the table of required symbol versions at the offset ``at``: for each version's index,
    return the library, the version's name and the offset of its entry.
    """
    needs: dict[int, tuple[str, str, int]] = {}
    while True:
        _, count, file, first, following = struct.unpack_from("<HHIII", data, at)
        library, entry = _read_string(data, strings + file), at + first
        for _ in range(count):
            _, _, index, name, step = struct.unpack_from("<IHHII", data, entry)
            needs[index] = (library, _read_string(data, strings + name), entry)
            entry += step
        if not following:
            return needs
        at += following


def _read_string(data: bytearray, at: int) -> str:
    return data[at : data.index(0, at)].decode()


def _parse_libc_version(version: str) -> Version:
    prefix, _, number = version.partition("_")
    if prefix != "GLIBC" or not number.startswith("2"):
        return (0,)  # GLIBC_PRIVATE, GLIBC_ABI_DT_RELR: not versions of functions
    return tuple(int(part) for part in number.split("."))
