"""Checks of the platform's requests by the broker itself: accounts, folders, options and limits."""

from __future__ import annotations

import time
from threading import Lock
from uuid import UUID

from aitne.adapters.unix_account_mapping import UnixUser, jobs_folder, permitted_user
from aitne.broker.config import BrokerConfig
from aitne.core.broker.protocol import WireRequest
from aitne.core.errors import InvalidInput, NotAllowed
from aitne.core.ports.accounting import ROOT, Change, RemoveMember
from aitne.core.ports.job_files import JobLocation

_REMEMBER_S = 10.0
"""Seconds for which the result of a query to the account database (such as a directory service) is
reused.
"""


class Guard:
    """Checks of requests before the broker executes them: accounts, folders, options and limits. It
    is thread-safe.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._known: dict[str, tuple[float, UnixUser]] = {}
        self._lock = Lock()

    def check_account(self, name: str | None) -> UnixUser:
        """Return the Unix account ``name``, after checking that jobs may run under it.

        Raises:
            NotAllowed: the account does not exist, or its uid or groups do not permit it.
        """
        if name is None:
            raise NotAllowed("The broker acts only for an account, and the request names none.")
        with self._lock:
            entry = self._known.get(name)
        if entry is not None and entry[0] > time.monotonic():
            return entry[1]
        user = permitted_user(name, self._config.accounts)
        with self._lock:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[name] = (time.monotonic() + _REMEMBER_S, user)
        return user

    def check_accounting_change(self, change: Change) -> None:
        """Check that a change of accounting is one that a project of the platform can require.

        Raises:
            NotAllowed: the change concerns Slurm's own account, or an account that jobs may not run
                under.
        """
        user: str | None = getattr(change, "user", None)
        if ROOT in (change.account, user):
            raise NotAllowed("The broker changes nothing about Slurm's own account and user root.")
        if user is not None and not isinstance(change, RemoveMember):
            self.check_account(user)

    def check_job_folder(self, place: JobLocation) -> UnixUser:
        """Return the Unix account that owns the job folder, after checking the folder's path.

        Raises:
            NotAllowed: the path is not one that ``slurm.jobs_dir`` or ``slurm.spare_jobs_dir`` defines
                for this job and account.
        """
        return self._check_folder_owner(place.account, place.job_id, place.folder)

    def _check_folder_owner(
        self, account: str | None, job_id: UUID, folder: str, *, below: str = ""
    ) -> UnixUser:
        """Return the Unix account ``account`` after checking that ``folder`` is the folder that
        this job may have, or with ``below`` (the attempt's number) the folder of that attempt.

        Raises ``NotAllowed`` if it is another folder.
        """
        user = self.check_account(account)
        patterns = filter(None, (self._config.slurm.jobs_dir, self._config.slurm.spare_jobs_dir))
        expected = [str(jobs_folder(pattern, user) / str(job_id) / below) for pattern in patterns]
        if folder not in expected:
            raise NotAllowed(
                f"The files of {user.name}'s job {job_id} are in {' or '.join(expected)}, not in "
                f"{folder}; other folders are not used. slurm.jobs_dir and slurm.spare_jobs_dir must be "
                "the same in the platform's settings and in the broker's."
            )
        return user

    def check_request(self, request: WireRequest) -> UnixUser:
        """Return the Unix account of the request, after checking its options and limits.

        Raises:
            NotAllowed: the account or the folder is not permitted.
            InvalidInput: this site does not allow an option or a limit.
        """
        user = self._check_folder_owner(
            request.account, request.job_id, request.job_dir, below=str(request.attempt)
        )
        for option in request.slurm.extra:
            name = option.partition("=")[0]
            if name not in self._config.slurm.extra:
                raise InvalidInput.field(
                    "slurm.extra",
                    f"{name} is not permitted at this site (slurm.extra of the broker's settings)",
                    value=option,
                    allowed=", ".join(self._config.slurm.extra) or "none",
                )
        self.check_duration(request.time_limit_s)
        return user

    def check_duration(self, time_limit_s: int) -> None:
        """Check that the time limit does not exceed the broker's ``max_duration``; raise
        ``InvalidInput`` otherwise.
        """
        if time_limit_s > self._config.max_duration:
            raise InvalidInput.field(
                "max_duration",
                "longer than the broker's max_duration",
                value=f"{time_limit_s} s",
                allowed=f"at most {self._config.max_duration} s",
            )
