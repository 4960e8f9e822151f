"""Places for backups: folders, and buckets of S3 by the program ``aws``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from aitne.core.errors import SetupError, Unavailable

S3 = "s3:"
_AWS = "aws"
_STAGED = ".aitne-backup-"
_LEFT_AFTER_S = 86_400


class Target(Protocol):
    """Place in which backups are kept."""

    @property
    def staging(self) -> Path:
        """Return the folder in which the next backup is written before it is complete."""
        ...

    def store(self, staged: Path, name: str) -> str:
        """Keep the complete backup ``staged`` under the name ``name``; return its address.

        Raises:
            OSError: it cannot be stored.
            SetupError: a program is missing, or a backup of this name exists.
            Unavailable: the bucket does not accept it.
        """
        ...

    def prune(self, cluster: str, keep: int) -> list[str]:
        """Delete the oldest backups of a cluster, so that ``keep`` remain; return their names."""
        ...


def make_backup_name(cluster: str, at: datetime) -> str:
    """Return the file name of a backup: names sort by time."""
    return f"aitne-{cluster}-{at:%Y%m%dT%H%M%S}Z.tar"


def make_target(target: str, data_dir: Path) -> Target:
    """Return the place that ``target`` names: a folder, or ``s3://BUCKET/PREFIX``. ``data_dir`` is the
    folder for backups on their way into a bucket.

    Raises:
        SetupError: the folder cannot be used, or the program ``aws`` is missing.
    """
    if target.startswith(S3):
        return _Bucket(f"s3://{target.removeprefix(S3).lstrip('/').rstrip('/')}", data_dir)
    return _Folder(Path(target).expanduser().absolute())


@contextmanager
def create_staging_folder(place: Path) -> Iterator[Path]:
    """Provide an empty private folder in ``place`` for the ``with`` block, which is removed at its
    end, and remove those that killed processes left. Raises ``OSError``.
    """
    for left in place.glob(f"{_STAGED}*"):
        if time.time() - left.stat().st_mtime > _LEFT_AFTER_S:
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=_STAGED, dir=place) as name:
        yield Path(name)


class _Folder:
    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"The folder {folder} for backups cannot be created: {error.strerror}. Choose "
                "another with --to."
            ) from error
        self.staging = folder

    def store(self, staged: Path, name: str) -> str:
        path = self.staging / name
        if path.exists():
            raise SetupError(
                f"{path} exists: another backup was made in the same second. Try again."
            )
        staged.rename(path)
        folder = os.open(self.staging, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return str(path)

    def prune(self, cluster: str, keep: int) -> list[str]:
        pattern = re.compile(rf"aitne-{re.escape(cluster)}-\d{{8}}T\d{{6}}Z\.tar")
        names = sorted(
            entry.name for entry in self.staging.iterdir() if pattern.fullmatch(entry.name)
        )
        old = names[:-keep]
        for name in old:
            (self.staging / name).unlink(missing_ok=True)
        return old


class _Bucket:
    def __init__(self, address: str, staging: Path) -> None:
        self._address = address
        self.staging = staging
        if shutil.which(_AWS) is None:
            raise SetupError(
                f"The program {_AWS}, which stores backups in {address}, is not installed. Install "
                "the AWS CLI, or name a folder with --to."
            )

    def store(self, staged: Path, name: str) -> str:
        address = f"{self._address}/{name}"
        done = subprocess.run(
            [_AWS, "s3", "cp", "--only-show-errors", str(staged), address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            reason = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            raise Unavailable(f"The backup cannot be stored in {address}: {reason}")
        return address

    def prune(self, cluster: str, keep: int) -> list[str]:
        return []  # rules of the bucket delete old objects
