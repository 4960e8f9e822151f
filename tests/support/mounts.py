"""Real file systems for tests: small ones, and one that never answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.slurm import root_or_skip


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a tmpfs at ``folder`` during the block; skip the test unless this is root."""
    root_or_skip()
    folder.mkdir(parents=True, exist_ok=True)
    with_options = ["-o", ",".join(options)] if options else []
    _mount(["-t", "tmpfs", *with_options, "tmpfs", str(folder)])
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """Mount a file system whose server never answers, so that every access waits.

    It is a FUSE file system whose requests are not read. At the end of the block all requests fail.
    """
    root_or_skip()
    folder.mkdir(parents=True, exist_ok=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
        done = subprocess.run(
            ["mount", "-i", "-t", "fuse", "-o", options, "silent", folder],
            pass_fds=[device],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"no FUSE file system can be mounted here: {done.stderr.strip()}")
        yield folder
    finally:
        os.close(device)
        subprocess.run(["umount", "--lazy", folder], check=False)


def _mount(arguments: list[str]) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
