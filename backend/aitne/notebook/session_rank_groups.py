"""Rank groups of a session: jobs that ``aitne.client`` starts and ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from aitne_train.notebook import ipyparallel_fast_import, rank_group_connection_files
from aitne_train.notebook.rank_groups import RankGroups, RanksError

_AGAIN_S = 1.0
"""Seconds between attempts to reach a platform that does not answer."""


class SessionRanks(RankGroups):
    """The rank groups of the session to which this kernel belongs.

    Args:
        environ: environment variables of the kernel.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._with_platform = bool(self.session and environ.get("AITNE_TOKEN"))
        self._client: Any = None

    @property
    def client(self) -> Any:
        """Return the client of the platform. Raises ``RanksError`` outside a session."""
        if self.of_job or not self.with_platform:
            raise RanksError(self.refusal)
        if self._client is None:
            from aitne import Client

            self._client = Client()
        return self._client

    @property
    def with_platform(self) -> bool:
        """Return whether this kernel belongs to a session of a platform."""
        return self._with_platform

    def find_starting(self) -> str | None:
        """Return the ID of a group of this session that waits in the queue or starts, for example
        one whose request was interrupted; None: there is none, or no platform."""
        if not self._with_platform or self.of_job:
            return None
        groups = self.client.sessions.ranks(self.session, live=True)
        return next((str(group.id) for group in groups if not group.cancel_requested), None)

    def request_group(self, ranks: int, **options: Any) -> str:
        """Request a rank group with ``ranks`` ranks for this session, and return its ID.

        ``options`` are passed to ``aitne.Client().sessions.start_ranks``, whose errors are raised.
        """
        group = str(self.client.sessions.start_ranks(self.session, ranks, **options).id)
        ipyparallel_fast_import.import_without_clusters()
        import aitne_train.notebook.group_connection  # noqa: F401 - a long import, during which the ranks start

        return group

    def wait_for_group(self, group: str, say: Callable[[str], None]) -> Path:
        """Wait until a group can execute cells, and return its folder.

        Args:
            group: ID of the group's job.
            say: called with a line about the progress after each change.

        Raises:
            RanksError: the group ended before it was ready, or its ranks did not start in time.
        """
        from aitne.client.errors import CertificateInvalid
        from aitne.core.errors import Unavailable

        folder = rank_group_connection_files.locate_groups_folder() / group
        while True:
            try:
                return self._wait_while_answering(group, folder, say)
            except CertificateInvalid:
                raise
            except Unavailable:
                # The group waits or runs on while the platform is restarted.
                with contextlib.suppress(
                    FileNotFoundError, rank_group_connection_files.ConnectionFilesError
                ):
                    if rank_group_connection_files.read_status(folder).state != "ending":
                        return self.wait_for_start(folder, say)
                say("The platform does not answer. Waiting for the ranks continues.")
                time.sleep(_AGAIN_S)

    def _wait_while_answering(self, group: str, folder: Path, say: Callable[[str], None]) -> Path:
        """Wait as ``wait_for_group`` does while the platform answers. Raises its errors, and
        ``Unavailable``."""
        for job in self.client.jobs.watch(group):
            if job.ended:
                raise RanksError(
                    job.message or f"The rank group is {job.state}: {job.reason or 'see its log'}."
                )
            say(_describe_stage(job))
            if job.state == "RUNNING":
                return self.wait_for_start(folder, say)
        raise RanksError("the platform no longer reports on the rank group")

    def explain_end(self, group: str, wait_s: float = 0.0) -> str | None:
        """Return the platform's message about the end of a group.

        Return None if the group has no message or has not ended, or if the platform does not
        answer.

        Args:
            group: ID of the group.
            wait_s: seconds to wait for the end of the group; 0: do not wait. The call may return
                later, because the time limit is only checked when the platform sends an event.
        """
        if not self._with_platform or group == self.session:
            return None
        from aitne.core.errors import AitneError

        jobs = self.client.jobs
        try:
            job = jobs.wait(group, timeout_s=wait_s) if wait_s else jobs.get(group)
        except (AitneError, OSError):
            return None
        return str(job.message) if job.ended and job.message else None

    def release_group(self, group: str) -> None:
        """Ask the platform to release a group. Errors of the client are raised."""
        self.client.sessions.release_ranks(self.session, group)


def _describe_stage(job: Any) -> str:
    """Return a line that describes the state of a group's job."""
    if job.state == "RUNNING":
        return f"Running on {', '.join(job.nodes)}. The ranks start."
    state = job.state.replace("_", " ").capitalize()
    parts = [f"{state}: {job.reason}" if job.reason else state, job.message or ""]
    if job.expected_start_at is not None:
        start, today = job.expected_start_at.astimezone(), datetime.now().astimezone().date()
        day = "" if start.date() == today else f"{start:%Y-%m-%d} "
        parts.append(f"Expected start: {day}{start:%H:%M %Z}")
    return " ".join(f"{part.rstrip('.')}." for part in parts if part)
