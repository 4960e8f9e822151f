"""The store's part about logins in browsers, second factors and lockouts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from aitne.core.models.sign_in import LoginAttempt, OpenSignIn, SecondFactor, SignIn
from aitne.core.models.user import User


class SignInStore(Protocol):
    """Logins, second factors, lockouts, and the subjects of other identity sources. Secrets come
    hashed."""

    async def create_sign_in(
        self, sign_in: SignIn, token_hash: str, csrf: str, *, notify: bool = False
    ) -> None:
        """Store a login in a browser: the cookie's hash and the CSRF token that belongs to it.

        ``notify`` notifies its owner. Raises ``NotFound`` if there is no such user, or no longer
        the token behind it.
        """
        ...

    async def open_sign_in(
        self, token_hash: str, now: datetime, address: str | None
    ) -> OpenSignIn | None:
        """Return the sign-in and note its use (at most once a minute), or return None if it has
        ended or its owner is disabled.

        It acts as ``acting_as`` until ``acting_until``, while its owner is an administrator and the
        other user is neither an administrator nor disabled; else as its owner.
        """
        ...

    async def end_sign_in(self, token_hash: str) -> None:
        """End the sign-in of this token. An unknown one is no error."""
        ...

    async def list_sign_ins(self, owner: str, now: datetime) -> Sequence[SignIn]:
        """List the valid sign-ins, the one used last first."""
        ...

    async def sign_in_id(self, token_hash: str) -> str | None:
        """Return the public id of the sign-in that this token opens, or None if there is none."""
        ...

    async def revoke_sign_in(self, owner: str, sign_in_id: str) -> None:
        """Revoke one sign-in of the owner, and login links and codes that were not used. Raises
        ``NotFound``."""
        ...

    async def revoke_sign_ins(self, owner: str, *, keep: str | None = None) -> int:
        """Revoke all sign-ins of the owner, and login links and codes that were not used; return
        how many ended.

        ``keep`` is the token's hash of one that stays.
        """
        ...

    async def note_authentication(self, token_hash: str, now: datetime) -> None:
        """Note that the user has authenticated again in the browser. Raises ``NotFound``."""

    async def hub_logouts(self) -> Mapping[str, int]:
        """Return the users whose logins have ended since JupyterHub was notified, with the number
        of times."""
        ...

    async def hub_logged_out(self, owner: str, count: int) -> None:
        """Note that JupyterHub has ended the logins of the owner, unless more have ended since."""
        ...

    async def act_as(
        self, token_hash: str, csrf: str, name: str | None, until: datetime | None
    ) -> None:
        """Make a sign-in act as ``name``, or as its owner again. ``csrf`` is the new token.

        Raises ``NotFound`` if there is no such login or user.
        """
        ...

    async def set_password(
        self, name: str, password_hash: str, *, keep: str | None, delete_tokens: bool = False
    ) -> None:
        """Set the password and end all logins but the one with the token's hash ``keep``.

        ``delete_tokens`` deletes the user's access tokens and all logins by them too. Raises
        ``NotFound``.
        """
        ...

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        """Return the user of ``subject`` in that source, or None if there is none."""
        ...

    async def subject_of(self, name: str) -> str | None:
        """Return the account's subject in its source, or None if none is stored."""
        ...

    async def tie_user(self, name: str, source: str | None, subject: str | None) -> User:
        """Set the account's identity source; with a source its password is deleted.

        Raises ``NotFound``, and ``Conflict`` if the subject is another account's.
        """
        ...

    async def begin_attempt(
        self, key: str, now: datetime, *, most: int, window_s: float, longest_s: float
    ) -> LoginAttempt:
        """Count one try under ``key``, unless that is locked.

        From the try number ``most`` on it is locked for ``window_s`` and, with every further one,
        for twice as long, at most ``longest_s``. Tries that are further apart than the window, or
        after the lock than ``longest_s``, start a new count.
        """
        ...

    async def take_back_attempt(self, key: str, now: datetime, *, most: int) -> None:
        """Remove the last try under ``key`` from the count, with the lock that it caused."""
        ...

    async def locked_until(self, key: str, now: datetime) -> datetime | None:
        """Return the end of the lock of ``key``, or None if it is not locked."""
        ...

    async def clear_lockout(self, key: str, *, below: bool = False) -> bool:
        """Delete the tries under ``key``; ``below``: also under keys that continue it with ``/``.

        Returns whether there were any.
        """
        ...

    async def second_factor(self, owner: str) -> SecondFactor | None:
        """Return the user's second factor, which may not be confirmed yet, or None if there is
        none."""
        ...

    async def enrol_second_factor(self, factor: SecondFactor) -> None:
        """Store a new second factor in place of one that was never confirmed.

        Raises ``Conflict`` if there is a confirmed one, ``NotFound`` if there is no such user.
        """
        ...

    async def confirm_second_factor(
        self, owner: str, now: datetime, step: int, code_hashes: Collection[str]
    ) -> bool:
        """Confirm the second factor: from now on it is required, and ``step`` is used up. Return
        False if there is none to confirm."""
        ...

    async def use_step(self, owner: str, step: int) -> bool:
        """Use up a time step and all before it; return False if the step was used up already."""
        ...

    async def put_recovery_codes(self, owner: str, code_hashes: Collection[str]) -> None:
        """Replace all recovery codes of the owner."""
        ...

    async def use_recovery_code(self, owner: str, code_hash: str) -> bool:
        """Use up a recovery code; return False if the owner has no such code."""
        ...

    async def count_recovery_codes(self, owner: str) -> int:
        """Count the recovery codes that are left."""
        ...

    async def delete_second_factor(self, owner: str) -> bool:
        """Delete the second factor with its recovery codes. Return whether there was one."""
        ...
