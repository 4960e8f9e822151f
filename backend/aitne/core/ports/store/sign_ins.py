"""The store's part about logins in browsers, second factors and lockouts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from aitne.core.models.sign_in import Attempt, OpenSignIn, SecondFactor, SignIn
from aitne.core.models.user import User


class SignInStore(Protocol):
    """Logins, second factors, lockouts, and whom other sources vouch for. Secrets come hashed."""

    async def create_sign_in(
        self, sign_in: SignIn, token_hash: str, csrf: str, *, notify: bool = False
    ) -> None:
        """A login in a browser: the cookie's hash and the CSRF token that goes with it.

        ``notify`` notifies its owner. Raises ``NotFound`` if there is no such user, or no longer the
        token behind it."""
        ...

    async def open_sign_in(
        self, token_hash: str, now: datetime, address: str | None
    ) -> OpenSignIn | None:
        """The login, unless it is over or its owner disabled. Notes the use, at most once a minute.

        It speaks for ``acting_as`` until ``acting_until``, while its owner administers the platform
        and that one does not and is not disabled; else for its owner."""
        ...

    async def end_sign_in(self, token_hash: str) -> None:
        """Log out. An unknown one is no error."""
        ...

    async def list_sign_ins(self, owner: str, now: datetime) -> Sequence[SignIn]:
        """Those that hold, the one used last first."""
        ...

    async def sign_in_id(self, token_hash: str) -> str | None:
        """What lists call the login that this token opens."""
        ...

    async def revoke_sign_in(self, owner: str, sign_in_id: str) -> None:
        """End one of the owner's, and login links and codes that were not used. Raises ``NotFound``."""
        ...

    async def revoke_sign_ins(self, owner: str, *, keep: str | None = None) -> int:
        """All of the owner's, and login links and codes that were not used; ``keep`` is the
        token's hash of one that stays. How many ended."""
        ...

    async def note_authentication(self, token_hash: str, now: datetime) -> None:
        """Note that the user has proved who is at the browser. Raises ``NotFound``."""

    async def hub_logouts(self) -> Mapping[str, int]:
        """Return the users whose logins have ended since JupyterHub heard of it, with how often."""
        ...

    async def hub_logged_out(self, owner: str, count: int) -> None:
        """Note that JupyterHub has ended the logins of the owner, unless more have ended since."""
        ...

    async def act_as(
        self, token_hash: str, csrf: str, name: str | None, until: datetime | None
    ) -> None:
        """Have a login speak for ``name``, or for its owner again. ``csrf`` is the new token.

        Raises ``NotFound``: no such login or user."""
        ...

    async def set_password(
        self, name: str, password_hash: str, *, keep: str | None, delete_tokens: bool = False
    ) -> None:
        """Set the password and end all logins but the one with the token's hash ``keep``.

        ``delete_tokens`` deletes the user's access tokens and all logins by them too. Raises ``NotFound``.
        """
        ...

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        """Whom the source means by ``subject``."""
        ...

    async def subject_of(self, name: str) -> str | None:
        """What the account's source calls it, where that was ever said."""
        ...

    async def tie_user(self, name: str, source: str | None, subject: str | None) -> User:
        """Say who vouches for the account; with a source its password is forgotten.

        Raises ``NotFound``, and ``Conflict`` if the subject is another account's."""
        ...

    async def begin_attempt(
        self, key: str, now: datetime, *, most: int, window_s: float, longest_s: float
    ) -> Attempt:
        """Count one try under ``key``, unless that is locked.

        From the try number ``most`` on it is locked for ``window_s`` and, with every further one,
        for twice as long, at most ``longest_s``. Tries that are further apart than the window, or
        after the lock than ``longest_s``, begin anew."""
        ...

    async def take_back_attempt(self, key: str, now: datetime, *, most: int) -> None:
        """Count the last try under ``key`` no more, nor the lock that it brought."""
        ...

    async def locked_until(self, key: str, now: datetime) -> datetime | None:
        """None: it is not locked."""
        ...

    async def clear_lockout(self, key: str, *, below: bool = False) -> bool:
        """Forget what was counted; ``below``: also under keys that go on with ``/``. Whether there
        was anything."""
        ...

    async def second_factor(self, owner: str) -> SecondFactor | None:
        """None: the user has none. It may not be confirmed yet."""
        ...

    async def enrol_second_factor(self, factor: SecondFactor) -> None:
        """In the place of one that was never confirmed.

        Raises ``Conflict`` if there is a confirmed one, ``NotFound`` if there is no such user."""
        ...

    async def confirm_second_factor(
        self, owner: str, now: datetime, step: int, code_hashes: Collection[str]
    ) -> bool:
        """From now on it is asked for; ``step`` is used up. False: there is none to confirm."""
        ...

    async def use_step(self, owner: str, step: int) -> bool:
        """Use up a time step and all before it. False: it was used up."""
        ...

    async def put_recovery_codes(self, owner: str, code_hashes: Collection[str]) -> None:
        """In the place of all that there are."""
        ...

    async def use_recovery_code(self, owner: str, code_hash: str) -> bool:
        """Use one up. False: there is no such one."""
        ...

    async def count_recovery_codes(self, owner: str) -> int:
        """How many are left."""
        ...

    async def delete_second_factor(self, owner: str) -> bool:
        """With its recovery codes. Whether there was one."""
        ...
