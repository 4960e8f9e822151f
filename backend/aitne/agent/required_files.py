"""Check that the files a program requires exist on its node and are unchanged since
registration."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence

from aitne.agent.spec import Need

LOOK_S = 60.0
"""Seconds without an answer after which a file system counts as not available."""
_CHUNK = 1 << 20
_BROKEN = (errno.ENOTCONN, errno.EIO, errno.ESTALE, errno.EHOSTDOWN, errno.ETIMEDOUT)


class MissingRequirementError(Exception):
    """Error: a file or folder that the job needs is missing; the message is for the user and has no
    full stop.
    """


class StopRequested(Exception):
    """Error: the job was asked to end while requirements were being checked."""


def check_needs(
    needs: Sequence[Need],
    node: str,
    stopped: Callable[[], bool],
    report_reading: Callable[[], None] = lambda: None,
) -> None:
    """Check each file or folder that the job's programs need.

    A file whose size or time differs from the registered one is read completely to compare its
    checksum, which can take minutes; ``report_reading`` is called before. ``stopped`` returns whether the
    job was asked to end.

    Raises:
        MissingRequirementError: a file is missing, cannot be read or has changed.
        StopRequested: ``stopped`` returned True.
    """
    for need in needs:
        differs = _check_need_in_time(need, node)
        if differs and need.sha256 is not None:
            report_reading()
            _compare_content(need, need.sha256, node, stopped)


def _check_need_in_time(need: Need, node: str) -> bool:
    """Return the result of ``_check_need``, or raise ``MissingRequirementError`` if the file system does
    not answer within ``LOOK_S`` seconds. The check runs in a thread, because it may hang."""
    answer: list[bool | MissingRequirementError] = []

    def run_check() -> None:
        try:
            answer.append(_check_need(need, node))
        except MissingRequirementError as error:
            answer.append(error)

    thread = threading.Thread(target=run_check, name="look", daemon=True)
    thread.start()
    thread.join(LOOK_S)
    if not answer:
        raise MissingRequirementError(
            f"{need.what} cannot be reached on node {node}: the file system of {need.path} did not "
            f"answer for {LOOK_S:.0f} s. Ask the site's support about it"
        )
    outcome = answer[0]
    if isinstance(outcome, MissingRequirementError):
        raise outcome
    return outcome


def _check_need(need: Need, node: str) -> bool:
    """Return whether a file differs in size or time from its registration.

    Raises ``MissingRequirementError`` if it does not exist or cannot be read.
    """
    try:
        info = os.stat(need.path)
        _try_open(need, info)
    except OSError as error:
        raise MissingRequirementError(_explain_failure(need, node, error)) from None
    if need.within:
        real = os.path.realpath(need.path)
        if not any(_is_below(real, os.path.realpath(folder)) for folder in need.within):
            raise MissingRequirementError(
                f"{need.what} may not be used: {need.path} leads to {real}, which lies in none of "
                f"{', '.join(need.within)}"
            )
    if need.folder:
        return False
    return (need.size_bytes, need.mtime_ns) != (info.st_size, info.st_mtime_ns)


def _try_open(need: Need, info: os.stat_result) -> None:
    """Open the file or folder to find errors that permission bits do not show, such as root on NFS,
    access control lists, or a mount that no longer exists. Raises ``OSError``."""
    if need.folder:
        if not stat.S_ISDIR(info.st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        os.close(os.open(f"{need.path}/.", os.O_RDONLY | os.O_DIRECTORY))
        return
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    with open(need.path, "rb", buffering=0) as file:
        file.read(1)


def _explain_failure(need: Need, node: str, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        there = os.path.dirname(os.path.abspath(need.path))
        while not os.path.exists(there):
            there = os.path.dirname(there)
        return (
            f"{need.what} is missing on node {node}: {need.path} does not exist, only {there} "
            "does. Its file system may not be mounted there, or it was removed; ask the site's "
            "support"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"{need.what} cannot be read on node {node}: {need.path} is not readable by user "
            f"id {os.geteuid()}. Ask its owner for read permission"
        )
    if error.errno == errno.ENOTDIR and need.folder:
        return f"{need.what} is not a folder on node {node}: {need.path}"
    if error.errno in _BROKEN:
        return (
            f"{need.what} cannot be read on node {node}: {need.path}: {error.strerror}. Its file "
            "system is broken there; ask the site's support"
        )
    return f"{need.what} cannot be used on node {node}: {need.path}: {error.strerror}"


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _compare_content(need: Need, sha256: str, node: str, stopped: Callable[[], bool]) -> None:
    import hashlib  # an unchanged file is not read

    digest = hashlib.sha256()
    try:
        with open(need.path, "rb", buffering=0) as file:
            while part := file.read(_CHUNK):
                if stopped():
                    raise StopRequested
                digest.update(part)
    except OSError as error:
        raise MissingRequirementError(_explain_failure(need, node, error)) from None
    if digest.hexdigest() != sha256.lower():
        raise MissingRequirementError(
            f"{need.what} is not what was registered: {need.path} on node {node} has the SHA-256 "
            f"{digest.hexdigest()[:16]}… and not {sha256.lower()[:16]}…. It was changed or is "
            "damaged; ask its owner to restore it"
        )
