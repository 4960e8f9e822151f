"""Creation of the folder in which a job runs, from an uploaded working tree or a git repository.

All attempts and tasks of a job share the folder. The first one fills a temporary folder and renames
it, so that the folder is either missing or complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import signal
import time

from aitne.agent import http_client
from aitne.agent.job_secrets import parse_error_detail
from aitne.agent.required_files import StopRequested
from aitne.agent.software_snapshot import without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Callable

    from aitne.agent.spec import Spec, TreeSpec

_PATIENCE_S = 300.0
_SILENCE_S = 60.0
_PAUSE_S = 2.0
_LOOK_S = 0.2
_MOST_LINE = 8 << 20
_CHUNK = 1 << 20
_GIT_ENV = {
    "GIT_ALLOW_PROTOCOL": "file:https:ssh",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SSH = "ssh -o BatchMode=yes"
_WORDS = 600
_MOST_PIECES = 100


class TreeUnavailable(Exception):
    """Error: the folder could not be filled; the message states the reason."""


class _Interrupted(Exception):
    """Error: the platform does not answer, or its answer ended early. The request is repeated."""


def create_tree(spec: Spec, tree: TreeSpec, stopped: Callable[[], bool]) -> None:
    """Create the folder in which the job runs, with its content, unless it exists already.

    Args:
        spec: description of the job.
        tree: path of the folder and source of its content.
        stopped: returns whether the job was asked to end.

    Raises:
        TreeUnavailable: the platform or git refuses or does not answer for some minutes, or the
            disk fails.
        StopRequested: the job was asked to end.
    """
    above = os.path.dirname(tree.path)
    try:
        with open(f"{tree.path}.lock", "ab") as lock:
            _wait_for_lock(lock.fileno(), stopped)
            if os.path.isdir(tree.path):
                return
            fresh = f"{above}/.tree-{os.urandom(8).hex()}"
            os.mkdir(fresh, 0o700)
            try:
                if tree.digest is None:
                    _check_out_commit(tree, fresh, stopped)
                else:
                    _fetch_tree(spec, tree.digest, fresh, stopped)
                os.rename(fresh, tree.path)
            except BaseException:
                _remove_folder(fresh)
                raise
    except OSError as error:
        raise TreeUnavailable(f"{error.strerror or error}: {error.filename or above}") from error


def _remove_folder(folder: str) -> None:
    import shutil  # it costs as much time as a small tree

    shutil.rmtree(folder, ignore_errors=True)


def _wait_for_lock(lock: int, stopped: Callable[[], bool]) -> None:
    """Wait for the lock that another task or node holds while it creates the folder. Return without
    the lock if the file system does not support locks. Raises ``StopRequested``."""
    while True:
        if stopped():
            raise StopRequested
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        except OSError:
            return  # this file system has no locks: renaming alone keeps the folder whole
        else:
            return


# --- trees -----------------------------------------------------------------------------------------


def _fetch_tree(spec: Spec, digest: str, folder: str, stopped: Callable[[], bool]) -> None:
    url = f"{spec.platform_url}/agent/v1/jobs/{spec.job_id}/tree"
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            reader = _Reader(url, spec.token, stopped)
            if reader.status == 200:
                _unpack_tree(reader, digest, folder)
                return
            reason = f"the platform answers {reader.status}"
            if 400 <= reader.status < 500 and reader.status != 429:
                raise TreeUnavailable(parse_error_detail(reader.read_rest()) or reason)
        except _Interrupted as error:
            reason = f"the platform cannot be reached: {error}"
            _remove_folder(folder)
            os.mkdir(folder, 0o700)
        if time.monotonic() > give_up:
            raise TreeUnavailable(f"{reason}, for {_PATIENCE_S:.0f} s")
        if stopped():
            raise StopRequested
        time.sleep(_PAUSE_S)


class _Reader:
    """Reader of a response of the platform.

    Its methods raise ``_Interrupted`` for network errors, which distinguishes them from errors of
    the disk, and ``StopRequested`` if the job was asked to end.
    """

    def __init__(self, url: str, token: str, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._rest = b""
        try:
            self.status, self._pieces = http_client.download(url, token=token, silence_s=_SILENCE_S)
        except (OSError, http_client.InvalidResponseError) as error:
            raise _Interrupted(str(error)) from error

    def _read_piece(self) -> bytes:
        if self._stopped():
            raise StopRequested
        try:
            return next(filter(None, self._pieces))
        except StopIteration:
            raise _Interrupted("its answer ended early") from None
        except OSError as error:
            raise _Interrupted(str(error)) from error

    def read_rest(self) -> bytes:
        """Return the rest of the response, which is an error message. Network errors are
        ignored."""
        try:
            return b"".join(itertools.islice(self._pieces, _MOST_PIECES))
        except OSError:
            return b""

    def read_line(self) -> bytes:
        """Return the next line without its newline."""
        while b"\n" not in self._rest:
            if len(self._rest) > _MOST_LINE:
                raise TreeUnavailable("the platform's answer is no tree")
            self._rest += self._read_piece()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def read_at_most(self, most: int) -> bytes:
        """Return the next bytes of the response, at most ``most`` of them."""
        data = self._rest or self._read_piece()
        self._rest = data[most:]
        return data[:most]


def _unpack_tree(reader: _Reader, digest: str, folder: str) -> None:
    """Write the files and links of an uploaded working tree to ``folder``. ``digest`` is the
    SHA-256 of its list of files."""
    document = reader.read_line()
    if hashlib.sha256(document).hexdigest() != digest:
        raise TreeUnavailable("the platform sent another tree than the job's")
    tree = json.loads(document)
    for path, size, sha256, executable in tree["files"]:
        target = _prepare_target(folder, path)
        content = hashlib.sha256()
        mode = 0o777 if executable else 0o666  # the umask applies
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(target, flags, mode), "wb") as file:
            while size:
                piece = reader.read_at_most(min(size, _CHUNK))
                size -= len(piece)
                content.update(piece)
                file.write(piece)
        if content.hexdigest() != sha256:
            raise TreeUnavailable(
                f"the platform's copy of {path!r} is damaged. Change the file and submit the job "
                "again with --sync, or tell an administrator"
            )
    for path, goal in tree["links"]:
        os.symlink(goal, _prepare_target(folder, path))


def _prepare_target(folder: str, path: str) -> str:
    """Return the path in ``folder`` for a file or link of the working tree, after creating its
    parent folders."""
    if path.startswith("/") or ".." in path.split("/"):
        raise TreeUnavailable(f"the tree has the path {path!r}")
    target = os.path.join(folder, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return target


# --- repositories ----------------------------------------------------------------------------------


def _check_out_commit(tree: TreeSpec, folder: str, stopped: Callable[[], bool]) -> None:
    """Check out one commit of a git repository to ``folder``, without its history."""
    for step in (
        ("init", "--quiet"),
        ("remote", "add", "origin", tree.url),
        ("fetch", "--quiet", "--depth=1", "--no-tags", "--", "origin", tree.ref),
        ("checkout", "--quiet", "--detach", "FETCH_HEAD"),
    ):
        code, words = _run_git(folder, step, stopped)
        if code != 0:
            raise TreeUnavailable(_explain_git_failure(tree, step[0], words))
    if tree.subdir is not None and not os.path.isdir(os.path.join(folder, tree.subdir)):
        raise TreeUnavailable(f"{tree.ref} of {_format_source(tree)} has no folder {tree.subdir}")


def _run_git(folder: str, step: tuple[str, ...], stopped: Callable[[], bool]) -> tuple[int, str]:
    """Run a git command, and return its exit code and the end of its output."""
    import subprocess  # a tree needs neither
    import tempfile

    environment = {"GIT_SSH_COMMAND": _SSH, **os.environ, **_GIT_ENV}
    options = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    with tempfile.TemporaryFile() as words:
        try:
            process = subprocess.Popen(
                ["git", *options, "-C", folder, *step],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise TreeUnavailable(
                "git is not installed on this node: ask an administrator to install it, or submit "
                "a working tree with --sync"
            ) from None
        while process.poll() is None:
            if stopped():
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise StopRequested
            time.sleep(_LOOK_S / 10)
        words.seek(max(0, words.seek(0, os.SEEK_END) - _WORDS))
        return process.returncode, words.read().decode("utf-8", "replace").strip()


def _format_source(tree: TreeSpec) -> str:
    return without_secrets(tree.url)


def _explain_git_failure(tree: TreeSpec, step: str, words: str) -> str:
    """Return the message for a failed git command, with the reason and a remedy.

    Args:
        tree: the repository.
        step: subcommand of git, such as ``fetch``.
        words: output of the command.
    """
    last = words.splitlines()[-1] if words else f"git {step} failed"
    if "couldn't find remote ref" in words or "not our ref" in words:
        return (
            f"{_format_source(tree)} has no branch, tag or commit {tree.ref}. Push it, or correct repo.ref; "
            "a commit is written with all of its digits"
        )
    if step == "fetch":
        return (
            f"{_format_source(tree)} cannot be fetched: {last.removeprefix('fatal: ').rstrip('.')}. Does the "
            "node reach it, and may the job's account read it? A private repository needs an ssh "
            "key of that account"
        )
    return f"git {step} failed: {last.removeprefix('fatal: ').rstrip('.')}"
