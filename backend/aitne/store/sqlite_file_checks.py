"""Checks of the SQLite file: location, access rights and integrity."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.store.database_error_messages import BUSY_TIMEOUT_S

NETWORK_FILE_SYSTEMS = frozenset(
    {"afs", "beegfs", "beegfs_nodev", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs"}
    | {"lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs"}
    | {"wekafs"}
)
"""Network file systems, on which SQLite's locks and shared memory are not reliable
(https://www.sqlite.org/wal.html)."""
_FUSE_NETWORK = ("sshfs", "glusterfs", "s3fs", "rclone", "juicefs", "ceph", "davfs", "smb", "nfs")
_MIN_VERSION = (3, 35, 0)
_CHECKED_BELOW_BYTES = 32 << 20
_MOUNTS = Path("/proc/self/mountinfo")


def find_file_system_type(path: Path, mounts: str) -> str:
    """Return the type of the file system that contains ``path``; ``mounts`` is the text of
    ``/proc/self/mountinfo``.
    """
    best, kind = "", ""
    target = str(path)
    for line in mounts.splitlines():
        mount, separator, right = line.partition(" - ")
        fields = mount.split()
        if not separator or len(fields) < 5:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        # The later of two mounts on one mount point hides the earlier one.
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def check_not_on_network(path: Path) -> None:
    """Raise ``SetupError`` if ``path`` lies on a network file system."""
    try:
        kind = find_file_system_type(path.resolve(), _MOUNTS.read_text(errors="surrogateescape"))
    except OSError:
        return  # no procfs: the type is unknown, which is not a reason to refuse
    fuse = kind.startswith("fuse.") and any(name in kind for name in _FUSE_NETWORK)
    if fuse or kind in NETWORK_FILE_SYSTEMS:
        raise SetupError(
            f"{path} is on a network file system ({kind}), where SQLite's locks are not reliable and "
            "the database would be damaged sooner or later. Choose a --data-dir on a local "
            "disk, or set database to a PostgreSQL server (postgresql://user@host/name)."
        )


def prepare_file(path: Path) -> None:
    """Create the file if it is missing, accessible only to its owner, and check it.

    Raises:
        SetupError: the file cannot be used; the message says what to do.
        sqlite3.Error: SQLite cannot open it.
    """
    if sqlite3.sqlite_version_info < _MIN_VERSION:
        raise SetupError(
            f"This Python has SQLite {sqlite3.sqlite_version}, but 3.35 is required. Use a "
            "newer Python, or set database to a PostgreSQL server."
        )
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_not_on_network(folder)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # Never open an existing file here: closing it would release the locks that SQLite holds on
        # it in this process (https://www.sqlite.org/howtocorrupt.html, section 2.2).
        if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except OSError as error:
        raise SetupError(
            f"The database {path} cannot be created or changed: {error.strerror}. Give the platform's "
            f"user write permission on {folder} and free space there, or choose another --data-dir."
        ) from error
    for needed in (path, folder):
        if not os.access(needed, os.R_OK | os.W_OK, effective_ids=True):
            raise SetupError(
                f"{needed} cannot be written by the platform's user (uid {os.geteuid()}), and the "
                "database must be. Change its owner or mode, or choose another --data-dir."
            )
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
        _enable_wal(connection)
        if path.stat().st_size < _CHECKED_BELOW_BYTES:
            _check_integrity(connection, path)


def _enable_wal(connection: sqlite3.Connection) -> None:
    """Switch the database to the write-ahead log, in which readers and the one writer do not block
    each other.

    The switch requires exclusive access to the file and does not wait for it. It is retried, since
    several processes may start at the same time. It is permanent: the file stores the mode.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
            continue
        if mode != "wal":
            raise SetupError(
                f"SQLite cannot keep a write-ahead log beside the database (it offers {mode}): the "
                "file system lacks shared memory. Choose a --data-dir on a local disk."
            )
        return


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Check the integrity of the database, which takes milliseconds for a small one; raises
    ``sqlite3.DatabaseError`` if it is damaged. The caller skips large databases.
    """
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        error = sqlite3.DatabaseError(verdict)
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
