"""The end of credentials: which connections were opened with them."""

from __future__ import annotations

from dataclasses import dataclass


def impersonation_id(sign_in_id: str, name: str) -> str:
    """Return the ID of the credential with which a sign-in acts as the user ``name``. It also ends
    with the sign-in.
    """
    return f"{sign_in_id}/{name}"


@dataclass(frozen=True, slots=True)
class EndedCredentials:
    """Credentials that have just ended, by revocation or because their time is over."""

    owner: str | None = None
    """User all of whose credentials count as ended, so that those that are still valid have to be
    shown again; None: only ``ids`` have ended.
    """
    ids: frozenset[str] = frozenset()
    """IDs of ended credentials, as ``Actor.credential``."""

    def includes(self, owner: str, credential: str) -> bool:
        """Return whether the credential of the user ``owner`` with this ID has ended."""
        sign_in_id = credential.partition("/")[0]
        return owner == self.owner or credential in self.ids or sign_in_id in self.ids
