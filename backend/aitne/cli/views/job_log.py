"""``aitne logs``: the log of a job, unchanged except for control sequences on a terminal."""

from __future__ import annotations

import sys

from aitne.cli.job_lookup import find_job, make_client
from aitne.cli.terminal_filter import TerminalFilter

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
    """Print the log of a job, or its last ``tail`` lines; with ``follow``, continue until the job
    has ended."""
    client = make_client(url, data_dir)
    record = find_job(client, job)
    read = client.jobs.follow_logs if follow else client.jobs.logs
    offset = 0 if tail is None else client.jobs.lines_offset(record.id, tail, task=task)
    write_log(read(record.id, task=task, offset=offset))
    return 0


def write_log(chunks: Iterable[bytes]) -> None:
    """Write a log to stdout as it arrives, without control sequences if stdout is a terminal."""
    sys.stdout.flush()
    for chunk in filter_for_terminal(chunks, sys.stdout.buffer):
        write_all(sys.stdout.buffer, chunk)


def filter_for_terminal(chunks: Iterable[bytes], out: BinaryIO) -> Iterable[bytes]:
    """Return ``chunks`` unchanged, or without control sequences if ``out`` is a terminal."""
    return map(TerminalFilter().feed, chunks) if out.isatty() else chunks


def write_all(out: BinaryIO, chunk: bytes) -> None:
    """Write and flush all of ``chunk``. Several writes may be needed, because with PYTHONUNBUFFERED
    one may accept only a part."""
    rest = memoryview(chunk)
    while rest:
        rest = rest[out.write(rest) :]
    out.flush()
