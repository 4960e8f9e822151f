"""Detection of a log that does not fit on its disk, which a program cannot report there."""

from __future__ import annotations

import errno
import os

from aitne.agent.sizes import describe_bytes

CODE = 116
"""Exit code of the job: its program failed, and its log does not fit on the disk."""
FULL = (errno.ENOSPC, errno.EDQUOT)
_PROBE_BYTES = 65_536


def find_full_disk_reason(folder: str) -> str | None:
    """Return a sentence if no space is left in the folder of the log; otherwise None."""
    path = os.path.join(folder, f".space-{os.urandom(8).hex()}")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return _describe_full_disk(folder, error) if error.errno in FULL else None
    try:
        os.write(file, b"\0" * _PROBE_BYTES)
        os.fsync(file)
    except OSError as error:
        return _describe_full_disk(folder, error) if error.errno in FULL else None
    else:
        # A short write is what a nearly full disk gives.
        full = os.fstat(file).st_size < _PROBE_BYTES
        return _describe_full_disk(folder, OSError(errno.ENOSPC, "")) if full else None
    finally:
        os.close(file)
        os.unlink(path)


def _describe_full_disk(folder: str, error: OSError) -> str:
    if error.errno == errno.EDQUOT:
        return f"its log does not fit on the disk: your quota for {folder} is used up"
    facts = os.statvfs(folder)
    total = facts.f_blocks * facts.f_frsize
    used = total - facts.f_bfree * facts.f_frsize
    return (
        f"its log does not fit on the disk: {describe_bytes(used)} of {describe_bytes(total)} of the file system of "
        f"{folder} are used"
    )
