"""``aitne logs``: what a job printed, byte for byte."""

from __future__ import annotations

import sys

from aitne.cli.lookup import connect, find_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO


def logs(
    *,
    job: str,
    url: str | None = None,
    data_dir: str | None = None,
    follow: bool = False,
    task: int | None = None,
    tail: int | None = None,
) -> int:
    """Print the log of a job; with ``follow``, go on until the job has ended."""
    client = connect(url, data_dir)
    found = find_job(client, job)
    read = client.jobs.follow_logs if follow else client.jobs.logs
    copy(read(found.id, task=task, tail=tail))
    return 0


def copy(chunks: Iterable[bytes]) -> None:
    """Bytes to stdout as they come."""
    sys.stdout.flush()
    for chunk in chunks:
        write_all(sys.stdout.buffer, chunk)


def write_all(out: BinaryIO, chunk: bytes) -> None:
    """Write and flush. With PYTHONUNBUFFERED set, one write may take a part only."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[out.write(rest) :]
    out.flush()
