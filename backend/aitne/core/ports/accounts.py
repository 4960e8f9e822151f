"""Portal users and Unix accounts."""

from __future__ import annotations

from typing import Protocol

from aitne.core.models.base import Frozen


class UnixAccount(Frozen):
    """The Unix account that a user's jobs run as."""

    name: str | None
    """Name of the account; None: jobs of all users run as the platform's own account."""
    home: str
    """Its home folder, absolute."""
    folder: str
    """The folder below which the user's job folders are made, absolute."""
    user: str
    """The account's name, also of the platform's own."""
    uid: int


class Accounts(Protocol):
    """Mapping from users to the Unix accounts under which their jobs run."""

    def of(self, user: str) -> UnixAccount:
        """Return the user's account.

        Raises:
            InvalidInput: there is none, or none that jobs may run as; the message states what to
                ask for.
        """
        ...
