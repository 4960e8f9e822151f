"""Mapping from users of the platform to Unix accounts."""

from __future__ import annotations

from typing import Protocol

from aitne.core.models.base import Frozen


class UnixAccount(Frozen):
    """Unix account under which a user's jobs run."""

    name: str | None
    """Name of the account; None: the jobs of all users run under the platform's own account."""
    home: str
    """Absolute path of its home folder."""
    folder: str
    """Absolute path of the folder in which the user's job folders are created."""
    user: str
    """Name of the account, also if it is the platform's own."""
    uid: int


class Accounts(Protocol):
    """Mapping from users to the Unix accounts under which their jobs run."""

    def get_account(self, user: str) -> UnixAccount:
        """Return the user's Unix account.

        Raises:
            InvalidInput: there is none, or none that jobs may run as; the message states what to
                request from an administrator.
        """
        ...
