"""Reading of files that jobs have written. Files are transferred in parts, and only one part of a
file is in memory at a time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from aitne.core.errors import Unavailable
from aitne.core.ports.job_files import JobFiles, JobLocation

PART_BYTES = 1 << 20
"""Number of bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class FileParts:
    """File in a job folder, whose parts are read on demand."""

    size: int
    """Size of the file in bytes."""
    parts: AsyncGenerator[bytes, None]
    """Contents of the file in order. Raises ``Unavailable`` if the file was replaced while it is
    read, so that parts of two files are never mixed.
    """


async def open_parts(files: JobFiles, place: JobLocation, name: str) -> FileParts | None:
    """Read the first part of the file ``name`` in the job folder; None if there is no such file.

    Raises ``Unavailable`` if the file cannot be read now.
    """
    first = await files.read_file(place, name, offset=0, limit=PART_BYTES)
    if first is None:
        return None
    return FileParts(first.size, _read_parts(files, place, name, first.data, first.size))


async def _read_parts(
    files: JobFiles, place: JobLocation, name: str, data: bytes, size: int
) -> AsyncGenerator[bytes, None]:
    offset = 0
    while True:
        yield data
        offset += len(data)
        if offset >= size:
            return
        limit = min(PART_BYTES, size - offset)
        part = await files.read_file(place, name, offset=offset, limit=limit)
        if part is None or part.size != size or not part.data:
            path = place.directory / name
            raise Unavailable(f"The file {path} was changed while it was read; try again.")
        data = part.data
