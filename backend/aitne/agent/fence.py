"""The fence: a file that says who runs this attempt, so that nobody runs it twice.

Beside it, at the end, lies the outcome: how the program ended, for a scheduler may forget that.
"""

from __future__ import annotations

import errno
import json
import os
import time

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)


class Duplicate(Exception):
    """Somebody else runs this attempt, or has run it."""


def take(job_dir: str, task: int | None, owner: str, restart_count: int) -> None:
    """Take it, or take it over from an earlier start of the same scheduler job.

    Raises:
        Duplicate: another owner has it, or this very start had it before.
        OSError: it can neither be taken nor read.
    """
    path = os.path.join(job_dir, "fence" if task is None else f"fence-{task}")
    content = json.dumps({"owner": owner, "restart_count": restart_count}).encode()
    own = f"{path}.{os.urandom(8).hex()}"
    try:
        _write(own, content, os.O_TRUNC)
        try:
            _put(own, path, content)
        except FileExistsError:
            _take_over(own, path, owner, restart_count)
    finally:
        if os.path.exists(own):
            os.unlink(own)


def leave_outcome(
    job_dir: str, task: int | None, owner: str, restart_count: int, exit_code: int
) -> None:
    """Write down how the program ended. Raises ``OSError``."""
    path = os.path.join(job_dir, "outcome" if task is None else f"outcome-{task}")
    own = f"{path}.{os.urandom(8).hex()}"
    facts = {
        "owner": owner,
        "restart_count": restart_count,
        "exit_code": exit_code,
        "ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    try:
        _write(own, json.dumps(facts).encode(), os.O_TRUNC)
        os.replace(own, path)
    finally:
        if os.path.exists(own):
            os.unlink(own)


def _put(own: str, path: str, content: bytes) -> None:
    try:
        os.link(own, path)  # appears whole: a crash leaves no empty fence
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _write(path, content, os.O_EXCL)


def _take_over(own: str, path: str, owner: str, restart_count: int) -> None:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        found = json.loads(text)
        holder, count = str(found["owner"]), int(found["restart_count"])
    except (ValueError, KeyError, TypeError):
        raise Duplicate(
            f"{path} is taken, by an owner that cannot be read: {text[:100]!r}"
        ) from None
    if holder != owner:
        raise Duplicate(f"{path} is taken by scheduler job {holder}; this is {owner}")
    if restart_count <= count:
        raise Duplicate(
            f"{path} is taken by start {count} of scheduler job {owner}; this is start {restart_count}"
        )
    os.replace(own, path)


def _write(path: str, content: bytes, flags: int) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
