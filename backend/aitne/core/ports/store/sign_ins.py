"""Part of the store for logins in browsers, second factors and lockouts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from aitne.core.models.sign_in import (
    DeviceLoginRequest,
    HubLogout,
    LoginAttempt,
    OpenSignIn,
    SecondFactor,
    SignIn,
)
from aitne.core.models.user import User


class SignInStore(Protocol):
    """Storage of sign-ins (logins in browsers), second factors, lockouts, and the identifiers of
    accounts in external identity sources. Secrets are stored as hashes.
    """

    async def create_sign_in(
        self, sign_in: SignIn, token_hash: str, csrf: str, *, notify: bool = False
    ) -> None:
        """Store a new sign-in with the hash of its sign-in token and its CSRF token. ``notify``
        sends a notification to the user.

        Raises ``NotFound`` if the user, or the access token used for the login, no longer exists.
        """
        ...

    async def open_sign_in(
        self,
        token_hash: str,
        now: datetime,
        address: str | None,
        *,
        idle_ends_at: datetime | None = None,
    ) -> OpenSignIn | None:
        """Return the sign-in of this sign-in token and record the request (at most once a minute);
        None if it has ended or its user is disabled.

        ``idle_ends_at`` is the time until which the request keeps the sign-in from ending because it
        is not used; None: it does not.

        An impersonating sign-in acts as ``acting_as`` until ``acting_until``, as long as its owner
        is an administrator and the other user is neither an administrator nor disabled.
        """
        ...

    async def end_sign_in(self, token_hash: str, now: datetime) -> None:
        """End the sign-in of this sign-in token, as if it expired ``now``. An unknown token is not an
        error.
        """
        ...

    async def replace_sign_in(self, token_hash: str, owner: str, now: datetime) -> None:
        """Invalidate this sign-in token, because the user ``owner`` has just logged in in the same
        browser.

        What was opened with the sign-in continues until its expiry if it was the same user's;
        otherwise the sign-in ends. An unknown token is not an error.
        """
        ...

    async def list_sign_ins(self, owner: str, now: datetime) -> Sequence[SignIn]:
        """List the owner's sign-ins that are valid at ``now``, the most recently used first."""
        ...

    async def sign_in_id(self, token_hash: str) -> str | None:
        """Return the public ID of the sign-in with this sign-in token; None if there is none."""
        ...

    async def revoke_sign_in(self, owner: str, sign_in_id: str) -> None:
        """Revoke one sign-in of the owner, and delete the owner's unused login links and OAuth
        codes. Raises ``NotFound``.
        """
        ...

    async def revoke_sign_ins(self, owner: str, *, keep: str | None = None) -> int:
        """Revoke all sign-ins of the owner, and delete unused login links and OAuth codes; return
        the number of revoked sign-ins.

        ``keep`` is the hash of the sign-in token of one sign-in that stays valid.
        """
        ...

    async def note_authentication(self, token_hash: str, now: datetime) -> None:
        """Record that the user has authenticated again in the browser at ``now``. Raises
        ``NotFound``.
        """

    async def hub_logouts(self, now: datetime) -> Sequence[HubLogout]:
        """Return what JupyterHub has to end, for each user whose sign-ins were revoked, or have
        expired before ``now``, since its last ``hub_logged_out``.
        """
        ...

    async def hub_logged_out(self, logout: HubLogout) -> None:
        """Record that JupyterHub has carried out the logout. What was revoked or has expired since
        it was read is still to be ended.
        """
        ...

    async def expired_credentials(self, after: datetime, until: datetime) -> frozenset[str]:
        """Return the IDs, as ``Actor.credential``, of the sign-ins, impersonations and access tokens
        whose time was over later than ``after``, and at ``until`` at the latest.
        """
        ...

    async def next_expiry(self, after: datetime) -> datetime | None:
        """Return the first time later than ``after`` at which the time of a sign-in, an
        impersonation or an access token is over; None if there is none.
        """
        ...

    async def credential_valid(self, credential: str, now: datetime) -> bool:
        """Return whether the credential with this ID (``Actor.credential``) exists and has not
        ended. Whether its user is disabled is not checked.
        """
        ...

    async def begin_device_login(
        self,
        request: DeviceLoginRequest,
        code_hash: str,
        network: str,
        *,
        most: int,
        most_of_network: int,
    ) -> None:
        """Store the request of a program to log in, under the hash of its user code.

        Raises ``RateLimited`` if ``most`` requests wait, or ``most_of_network`` from ``network``.
        """
        ...

    async def see_device_login(
        self, code_hash: str, owner: str, now: datetime
    ) -> DeviceLoginRequest | None:
        """Return the request with this user code and record that the user ``owner`` sees it, if it is
        for the first time; None if there is none that can still be confirmed.
        """
        ...

    async def delete_device_login(self, code_hash: str) -> bool:
        """Delete a request, because it was answered. Return whether there was one."""
        ...

    async def act_as(
        self, token_hash: str, csrf: str, name: str | None, until: datetime | None
    ) -> None:
        """Let requests of a sign-in act as the user ``name`` until ``until``; None: as its owner
        again.

        ``csrf`` is its new CSRF token. Raises ``NotFound`` if there is no such sign-in or user.
        """
        ...

    async def set_password(
        self, name: str, password_hash: str, *, keep: str | None, delete_tokens: bool = False
    ) -> None:
        """Set the password and end all sign-ins of the user except the one whose sign-in token has
        the hash ``keep``.

        ``delete_tokens`` also deletes the user's access tokens and the sign-ins made with them.
        Raises ``NotFound``.
        """
        ...

    async def user_of_subject(self, source: str, subject: str) -> User | None:
        """Return the user whose account in ``source`` has the identifier ``subject``; None if there
        is none.
        """
        ...

    async def subject_of(self, name: str) -> str | None:
        """Return the identifier that the account has in its identity source; None if none is
        stored.
        """
        ...

    async def tie_user(self, name: str, source: str | None, subject: str | None) -> User:
        """Set the account's identity source and its identifier in that source. With a source, its
        password is deleted.

        Raises ``NotFound``, and ``Conflict`` if another account has this identifier, or this account
        has another one.
        """
        ...

    async def begin_attempt(
        self, key: str, now: datetime, *, most: int, window_s: float, longest_s: float
    ) -> LoginAttempt:
        """Count a login with a password or code under ``key`` before it is checked, unless ``key``
        is locked; the result says which.

        Attempt number ``most`` locks ``key`` for ``window_s`` seconds, and each further one for
        twice as long, at most ``longest_s`` seconds. The count starts again after a pause of
        ``window_s`` or, after a lock, of ``longest_s`` seconds.
        """
        ...

    async def take_back_attempt(self, key: str, now: datetime, *, most: int) -> None:
        """Undo the last ``begin_attempt`` under ``key`` and the lock that it caused."""
        ...

    async def locked_until(self, key: str, now: datetime) -> datetime | None:
        """Return the time at which the lock of ``key`` ends; None if it is not locked."""
        ...

    async def clear_lockout(self, key: str, *, below: bool = False) -> bool:
        """Delete the count and lock of ``key`` and, with ``below``, of keys that begin with ``key``
        and ``/``. Return whether there were any.
        """
        ...

    async def second_factor(self, owner: str) -> SecondFactor | None:
        """Return the user's second factor, which may not be confirmed yet; None if there is
        none.
        """
        ...

    async def enrol_second_factor(self, factor: SecondFactor) -> None:
        """Store a new second factor; it replaces one that was never confirmed.

        Raises ``Conflict`` if there is a confirmed one, ``NotFound`` if there is no such user.
        """
        ...

    async def confirm_second_factor(
        self, owner: str, now: datetime, step: int, code_hashes: Collection[str]
    ) -> bool:
        """Confirm the second factor and store hashes of its recovery codes; from then on, logins
        require a code.

        ``step`` is the time step of the code that was entered, which cannot be used again. Returns
        False if there is no second factor to confirm.
        """
        ...

    async def use_step(self, owner: str, step: int) -> bool:
        """Mark the time step of a one-time code, and all earlier ones, as used; return False if it
        was used before.
        """
        ...

    async def put_recovery_codes(self, owner: str, code_hashes: Collection[str]) -> None:
        """Replace all recovery codes of the owner."""
        ...

    async def use_recovery_code(self, owner: str, code_hash: str) -> bool:
        """Delete a recovery code because it was used; return False if the owner has no
        such code.
        """
        ...

    async def count_recovery_codes(self, owner: str) -> int:
        """Count the recovery codes that are left."""
        ...

    async def delete_second_factor(self, owner: str) -> bool:
        """Delete the second factor with its recovery codes. Return whether there was one."""
        ...
