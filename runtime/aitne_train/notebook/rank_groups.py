"""Rank groups that a kernel uses: find, wait, attach, and release.

A group is found by its files. A platform that starts groups extends ``RankGroups``.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aitne_train.notebook import rank_group_connection_files, value_encoding

AGREED = ("torch", "numpy", "ipyparallel", "aitne-train")
"""Packages whose versions kernel and ranks should agree on."""
OTHER_PYTHON = (
    "Ranks with another Python: `%ranks stop`, then `%ranks start N --python /path/to/venv/bin/python`; those of a "
    "notebook that runs as a job: `aitne batch … --venv /path/to/venv`, or `--image`."
)
"""Sentence on what to do if the ranks' Python lacks a package."""
_LOOK_S = 0.1
_READY_S = 120.0
_END_S = 30.0
_LOST_S = 20.0


class RanksError(Exception):
    """Error: an operation on ranks failed. The message is for the user of the notebook."""

    def _render_traceback_(self) -> list[str]:
        return [f"RanksError: {self}"]


def list_versions() -> dict[str, str]:
    """Return the versions of the installed packages that should be the same in kernel and ranks, by
    name. The packages are not imported."""
    found = {}
    for name in AGREED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


class RankGroup:
    """A rank group to which this kernel is attached.

    Args:
        folder: folder of the group.
        notify: called on another thread with the type (``death``, ``end``, ``idle``) and the
            content of each notification of the controller; None: notifications are ignored.

    Raises:
        FileNotFoundError: the group is not ready, or has ended.
        RanksError: the group does not answer.
    """

    def __init__(
        self, folder: Path, notify: Callable[[str, Mapping[str, Any]], None] | None = None
    ) -> None:
        from aitne_train.notebook.group_connection import GroupConnection, RankAnswerError

        info = rank_group_connection_files.read_file(folder, rank_group_connection_files.CLIENT)
        self.folder = folder
        self.id = str(info["group"])
        try:
            self.link = GroupConnection(folder, info, notify or (lambda _kind, _content: None))
        except RankAnswerError as error:
            raise RanksError(str(error)) from error

    @property
    def ranks(self) -> list[int]:
        """Return the numbers of all ranks."""
        return sorted(self.link.ranks)

    @property
    def ended(self) -> bool:
        """Return whether the group ends or has ended."""
        return bool(self.link.message) or self.link.is_removed

    def choose_ranks(self, count: int | None, *, one_per_node: bool) -> list[int]:
        """Select the ranks that execute a cell.

        Args:
            count: number of ranks, starting with the lowest; None: all.
            one_per_node: consider only the first rank of each node.

        Raises:
            RanksError: ``count`` is larger than the number of these ranks, or less than 1.
        """
        ranks = [
            number
            for number, rank in sorted(self.link.ranks.items())
            if not one_per_node or rank.local_rank == 0
        ]
        if count is not None and not 1 <= count <= len(ranks):
            what = "nodes" if one_per_node else "ranks"
            raise RanksError(f"-n {count} does not fit: the group has {len(ranks)} {what}")
        return ranks[:count]

    def compare_versions(self) -> list[str]:
        """Return a warning for each version of Python or a package that differs between this kernel
        and the ranks."""
        own = {"Python": platform.python_version(), **list_versions()}
        found = []
        for name, version in own.items():
            by_version: dict[str, list[int]] = {}
            for number, rank in self.link.ranks.items():
                theirs = rank.python if name == "Python" else rank.versions.get(name)
                if theirs is not None and theirs != version:
                    by_version.setdefault(theirs, []).append(number)
            for theirs, numbers in by_version.items():
                who = "The ranks" if len(numbers) == len(self.link.ranks) else f"Ranks {numbers}"
                found.append(
                    f"{who} have {name} {theirs}, and this notebook has {version}: values that one of them pickles "
                    "may not be readable for the other."
                )
        return found

    @property
    def torch_warning(self) -> str | None:
        """Return a sentence if the Python of a rank has no PyTorch, which most cells on ranks use;
        None if all have it."""
        if all("torch" in rank.versions for rank in self.link.ranks.values()):
            return None
        return f"The ranks' Python has no PyTorch. {OTHER_PYTHON}"

    @property
    def has_same_python(self) -> bool:
        """Return whether kernel and ranks have the same minor version of Python."""
        own = platform.python_version().split(".")[:2]
        return all(rank.python.split(".")[:2] == own for rank in self.link.ranks.values())

    def push_variables(self, named: Mapping[str, Any]) -> None:
        """Set variables on all ranks.

        Args:
            named: values by the names of the variables.

        Raises:
            RanksError: a value cannot be serialized, or a rank cannot deserialize it.
        """
        encoder = value_encoding.Encoder(same_python=self.has_same_python)
        try:
            content = {
                "values": {name: encoder.encode_value(value, name) for name, value in named.items()}
            }
        except value_encoding.ValueTransferError as error:
            raise RanksError(str(error)) from error
        self._request_ranks("push_request", content, self.ranks, encoder.buffers)

    def pull_variables(
        self, names: Sequence[str], ranks: Sequence[int]
    ) -> dict[int, dict[str, Any]]:
        """Return the values of the variables ``names`` on ``ranks``, by rank and name.

        Raises:
            RanksError: a variable is not defined, or its value cannot be serialized on the rank or
                deserialized here.
        """
        python = list(platform.python_version_tuple()[:2])
        content = {"names": list(names), "python": python}
        replies = self._request_ranks("pull_request", content, ranks)
        try:
            return {
                rank: {
                    name: value_encoding.decode_value(description, reply["buffers"])
                    for name, description in reply["content"]["values"].items()
                }
                for rank, reply in replies.items()
            }
        except value_encoding.ValueTransferError as error:
            raise RanksError(str(error)) from error

    def release(self) -> None:
        """Release a group that was started without the platform. Ask its controller to end, and
        wait at most ``_END_S`` seconds until the group has ended."""
        from aitne_train.notebook.group_connection import RankAnswerError

        with contextlib.suppress(RankAnswerError):
            self.link.ask_controller("release_request")
        give_up = time.monotonic() + _END_S
        while self.folder.exists() and time.monotonic() < give_up:
            time.sleep(_LOOK_S)

    def interrupt(self) -> None:
        """Send SIGINT to all ranks that have not ended."""
        self.link.signal(signal.SIGINT, self.link.alive_ranks)

    def close(self) -> None:
        """Detach this kernel; the group continues."""
        self.link.close()

    def _request_ranks(
        self,
        kind: str,
        content: Mapping[str, Any],
        ranks: Sequence[int],
        buffers: Sequence[Any] = (),
    ) -> dict[int, Any]:
        """Send a request and return the replies by rank.

        Args:
            kind: type of the request.
            content: content of the message.
            ranks: receivers.
            buffers: binary buffers of the message.

        Raises:
            RanksError: a rank replied with an error, or has ended.
        """
        request = self.link.start(kind, content, ranks, buffers)
        replies: dict[int, Any] = {}
        try:
            while len(replies) < len(ranks):
                event = request.wait_for_event(_LOOK_S)
                if event is not None and event.kind == "reply":
                    replies[event.rank] = event.message
                elif (event is not None and event.kind == "lost") or self.ended:
                    raise RanksError(self.link.message or "the rank group has ended")
        finally:
            self.link.finish(request)
        for rank, reply in sorted(replies.items()):
            if reply["content"]["status"] != "ok":
                raise RanksError(f"rank {rank}: {reply['content'].get('message', 'failed')}")
        return replies


class RankGroups:
    """The rank groups of this kernel, without a platform that starts them.

    Args:
        environ: environment variables of the kernel.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.session = environ.get(rank_group_connection_files.SESSION, "")
        """ID of the session to which this kernel belongs; empty: none."""
        self.of_job = rank_group_connection_files.is_notebook_job(environ)
        """Whether this kernel runs a notebook as a job, which has the ranks of the job alone."""
        self._own = rank_group_connection_files.find_job_ranks(environ)

    @property
    def with_platform(self) -> bool:
        """Return whether a platform starts and ends groups for this kernel."""
        return False

    @property
    def refusal(self) -> str:
        """Return a sentence that says why this kernel cannot start ranks."""
        if self.of_job and self._own is not None:
            return "The ranks of this job have ended, and a job starts no others."
        if self.of_job:
            return (
                "This job has no ranks. Submit the notebook with several nodes (`aitne batch … --nodes 2`), or with "
                "`distributed` in its job file."
            )
        return (
            "This notebook does not belong to a session of the platform, so ranks cannot be started from it. Ranks "
            f"that run already are found if {rank_group_connection_files.FOLDER} names the folder of their group."
        )

    def list_statuses(self) -> list[tuple[Path, rank_group_connection_files.Status]]:
        """Return the folder and the state of each running rank group of this session. Groups that
        belong to no session are included; outside a session, all groups of the user are
        returned."""
        found = []
        for folder in rank_group_connection_files.list_folders():
            with contextlib.suppress(OSError, rank_group_connection_files.ConnectionFilesError):
                status = rank_group_connection_files.read_status(folder)
                if not self.session or not status.session or status.session == self.session:
                    found.append((folder, status))
        return found

    def list_ready(self) -> list[Path]:
        """Return the folders of the groups of this session that can execute cells."""
        return [folder for folder, status in self.list_statuses() if status.state == "ready"]

    def find_starting(self) -> str | None:
        """Return the ID of a group of this kernel that waits in the queue or starts; None: there is
        none, or no platform."""
        return None

    def request_group(self, ranks: int, **options: Any) -> str:
        """Request a rank group with ``ranks`` ranks, and return its ID.

        Raises ``RanksError`` where there is no platform; ``options`` are those of the platform.
        """
        raise RanksError(self.refusal)

    def wait_for_group(self, group: str, say: Callable[[str], None]) -> Path:
        """Wait until a group that was requested can execute cells, and return its folder.

        Args:
            group: ID of the group.
            say: called with a line about the progress after each change.

        Raises:
            RanksError: the group ended before it was ready, or its ranks did not start in time.
        """
        return self.wait_for_start(rank_group_connection_files.locate_groups_folder() / group, say)

    def wait_for_own_ranks(self, say: Callable[[str], None]) -> None:
        """Wait until the ranks of this kernel's own job have started or ended. Return immediately
        if the job has no ranks. ``say`` is called with a line about the progress."""
        if self._own is None:
            return
        folder, ended = self._own
        while not ended.exists():
            with contextlib.suppress(FileNotFoundError):
                status = rank_group_connection_files.read_status(folder)
                if status.state != "starting":
                    return
                say(f"{status.registered} of {status.size} ranks have started")
            time.sleep(_LOOK_S)

    def wait_for_start(self, folder: Path, say: Callable[[str], None]) -> Path:
        """Wait until all ranks of a running group have started, and return ``folder``.

        Args:
            folder: folder of the group.
            say: called with a line about the progress.

        Raises:
            RanksError: the group has ended, or the ranks did not start within ``_READY_S`` seconds.
        """
        give_up = time.monotonic() + _READY_S
        while time.monotonic() < give_up:
            with contextlib.suppress(FileNotFoundError):
                status = rank_group_connection_files.read_status(folder)
                if status.state == "ready":
                    return folder
                if status.state == "ending":
                    raise RanksError(f"The rank group has ended: {status.message}.")
                say(f"{status.registered} of {status.size} ranks have started")
            time.sleep(_LOOK_S)
        raise RanksError(
            f"The ranks have not started within {_READY_S:.0f} s. The log of the group's job has the reason; "
            "`%ranks` waits on if they are only slow"
        )

    def explain_end(self, group: str, wait_s: float = 0.0) -> str | None:
        """Return the platform's message about the end of a group.

        Return None if the group has no message or has not ended, or if no platform answers.

        Args:
            group: ID of the group.
            wait_s: seconds to wait for the end of the group; 0: do not wait. The call may return
                later, because the time limit is only checked when the platform sends an event.
        """
        return None

    def remove_ended_group(self, folder: Path) -> bool:
        """Remove the folder of a group that does not answer, if the group has ended according to
        the platform, for example after a power failure. Return whether the folder was removed."""
        if self.explain_end(folder.name) is None:
            return False
        rank_group_connection_files.remove_folder(folder)
        return True

    def release_group(self, group: str) -> None:
        """Ask the platform to release a group. Raises ``RanksError`` where there is none."""
        raise RanksError(self.refusal)
