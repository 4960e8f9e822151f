"""Operations of users on their own accounts, and of administrators on those of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from aitne.core.errors import Conflict, InvalidInput, NotAllowed, NotAuthenticated, RateLimited
from aitne.core.models.sign_in_records import SignIn
from aitne.core.models.user import Actor, Role, User
from aitne.core.ports.identity_source import PasswordHasher
from aitne.core.settings import Settings
from aitne.core.users.permissions import (
    PolicyAction,
    refuse_impersonation,
    require_full_login,
    require_permission,
    require_portal_login,
    require_recent_authentication,
)
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.users.authentication_service import lockout_key
from aitne.services.users.login_links import LoginLinks
from aitne.services.users.login_results import OneTimeLink
from aitne.services.users.login_service import OWN, LoginService
from aitne.services.users.password_rules import check_new_password
from aitne.services.users.second_factor import Enrolment, FactorState, SecondFactors
from aitne.store import Store

IMPERSONATION_S = 3_600
_RESET = "password_reset"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AccountDetails:
    """A user's own account as the user sees it."""

    user: User
    has_password: bool
    """Whether the platform stores a password for the account."""
    factor: FactorState
    """State of the second factor."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Protection of an account as administrators see it."""

    source: str
    """Name of the identity source that manages the account, which may be the platform itself."""
    has_password: bool
    """Whether the platform stores a password for the account."""
    second_factor: bool
    """Whether a second factor is enabled."""
    locked_until: datetime | None
    """Time until which logins are refused after failed logins; None: the account is not locked."""
    sign_ins: int
    """Number of sign-ins that have not ended."""


class AccountService:
    """Service for the credentials of accounts: passwords, second factors, sign-ins and
    impersonation.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], datetime],
        hasher: PasswordHasher,
        factors: SecondFactors,
        arrivals: LoginService,
        links: LoginLinks,
    ) -> None:
        self._links = links
        self._arrivals = arrivals
        self._store = store
        self._settings = settings
        self._clock = clock
        self._hasher = hasher
        self._factors = factors

    async def get(self, actor: Actor) -> AccountDetails:
        """Return the actor's own account.

        Raises ``NotAllowed`` if the credential does not permit that.
        """
        require_permission(PolicyAction.USER_READ, actor, "user", actor.name, owner=actor.name)
        user = await self._store.get_user(actor.name)
        stored = await self._store.find_password_hash(user.name)
        return AccountDetails(user, stored is not None, await self._factors.state(user))

    async def sign_ins(self, actor: Actor) -> Sequence[SignIn]:
        """List the actor's sign-ins that have not ended.

        Raises ``NotAllowed`` if the credential does not permit that.
        """
        require_permission(PolicyAction.SIGN_IN_READ, actor, "user", actor.name, owner=actor.name)
        return await self._store.list_sign_ins(actor.name, self._clock())

    async def find_current_sign_in(self, cookie: str | None) -> str | None:
        """Return the ID of the sign-in with this session cookie; None if there is none."""
        return None if cookie is None else await self._store.find_sign_in_id(hash_secret(cookie))

    async def revoke_sign_in(self, actor: Actor, sign_in_id: str) -> None:
        """End one of the actor's own sign-ins. Raises ``NotFound``, and as ``revoke_all``."""
        require_permission(PolicyAction.SIGN_IN_WRITE, actor, "user", actor.name, owner=actor.name)
        require_portal_login(actor, "Ending a login")
        await self._store.revoke_sign_in(actor.name, sign_in_id)

    async def revoke_all(self, actor: Actor, *, keep: str | None) -> int:
        """End all of the actor's own sign-ins except the one with the session cookie ``keep``.

        Return the number of sign-ins that ended. Raises ``NotAllowed`` or
        ``ReauthenticationRequired`` without a login of the portal.
        """
        require_permission(PolicyAction.SIGN_IN_WRITE, actor, "user", actor.name, owner=actor.name)
        require_portal_login(actor, "Ending logins")
        cookie_hash = None if keep is None else hash_secret(keep)
        return await self._store.revoke_sign_ins(actor.name, keep=cookie_hash)

    async def reauthenticate(
        self,
        actor: Actor,
        cookie: str | None,
        *,
        code: str | None,
        password: str | None,
        link: str | None,
    ) -> None:
        """Record that the user of the browser with this session cookie has authenticated again,
        with a code of the second factor, the password or a login link.

        Raises:
            NotAllowed: the code, the password or the link is wrong.
            InvalidInput: none is given, or the account has no such credential.
            Conflict: the request was authenticated by a token instead of a browser login.
            RateLimited: there were too many wrong codes or passwords.
            Unavailable: the identity source does not answer.
        """
        refuse_impersonation(actor, "confirm who they are")
        if cookie is None or actor.sign_in_id is None:
            raise Conflict("Only a login of the portal can be confirmed, not an access token.")
        if code is not None:
            await self._convert_code_error(self._factors.check(actor.name, code))
        elif password is not None:
            await self._count_password_attempt(actor)
            user, _ = await self._convert_code_error(
                self._arrivals.login_by_form(actor.name, password)
            )
            if user.name != actor.name:
                raise NotAllowed(f"This is the password of {user.name}, and you are {actor.name}.")
            await self._store.delete_lockout(_password_key(actor))
        elif link is not None:
            await self._links.redeem_proof(actor, link)
        else:
            raise InvalidInput.field("password", "the password, a code or a login link is needed")
        await self._store.record_authentication(hash_secret(cookie), self._clock())

    async def change_password(
        self,
        actor: Actor,
        password: str,
        current: str | None,
        *,
        keep: str | None,
        delete_tokens: bool = False,
    ) -> None:
        """Set the actor's password and end all sign-ins except the one with the session cookie
        ``keep``.

        ``current`` is the password used until now; with ``delete_tokens``, the access tokens are
        deleted too.

        Raises:
            NotAllowed: the current password is wrong.
            Conflict: an identity source manages the password, not the platform.
            RateLimited: there were too many wrong passwords.
        """
        require_permission(PolicyAction.SIGN_IN_WRITE, actor, "user", actor.name, owner=actor.name)
        _require_own_password(await self._store.get_user(actor.name))
        await self._prove_password(actor, current)
        check_new_password(password, actor.user)
        password_hash = await self._hasher.hash(password)
        cookie_hash = None if keep is None else hash_secret(keep)
        await self._store.set_password(
            actor.name, password_hash, keep=cookie_hash, delete_tokens=delete_tokens
        )

    async def enrol_factor(self, actor: Actor) -> Enrolment:
        """Create the secret of a second factor, which is used after ``confirm_factor``.

        Raises:
            Conflict: the user has a second factor already.
            NotAllowed: the token in use has fewer permissions than a login.
        """
        self._require_full_login(actor)
        require_recent_authentication(actor, self._clock())
        return await self._factors.enrol(actor.user)

    async def confirm_factor(self, actor: Actor, code: str) -> list[str]:
        """Enable the second factor after checking a code, and return the recovery codes.

        Raises the same errors as ``SecondFactors.confirm``.
        """
        self._require_full_login(actor)
        return await self._convert_code_error(self._factors.confirm(actor.user, code))

    async def renew_recovery_codes(self, actor: Actor, code: str) -> list[str]:
        """Replace the actor's recovery codes after checking a code of the second factor, and return
        the new ones.

        Raises the same errors as ``SecondFactors.check``.
        """
        self._require_full_login(actor)
        await self._convert_code_error(self._factors.check(actor.name, code))
        return await self._factors.renew_recovery_codes(actor.name)

    async def disable_factor(self, actor: Actor, *, code: str | None, password: str | None) -> None:
        """Remove the actor's second factor, after checking a code or the password.

        Raises:
            NotAllowed: the code or the password is wrong.
            Conflict: the user has no second factor, or the site requires one.
            RateLimited: there were too many wrong codes or passwords.
        """
        self._require_full_login(actor)
        state = await self._factors.state(actor.user)
        if not state.enabled:
            raise Conflict("There is no second factor to remove.")
        if state.required:
            raise Conflict(
                "This platform requires a second factor. To change the device, ask an "
                "administrator to reset it; you set up a new one with your next login."
            )
        if code is not None:
            await self._convert_code_error(self._factors.check(actor.name, code))
        elif password is not None:
            await self._prove_password(actor, password, first=False)
        else:
            raise InvalidInput.field("code", "a code or the password is needed")
        await self._factors.remove(actor.name)

    async def protection(self, actor: Actor, name: str) -> Protection:
        """Return how the account ``name`` is protected.

        Raises ``NotFound``, and ``NotAllowed`` unless the actor is an administrator.
        """
        user = await self._get_administered_user(actor, name)
        return Protection(
            source=user.source or OWN,
            has_password=await self._store.find_password_hash(name) is not None,
            second_factor=await self._factors.has_factor(name),
            locked_until=await self._store.find_lockout_end(self._lockout_key(name), self._clock()),
            sign_ins=len(await self._store.list_sign_ins(name, self._clock())),
        )

    async def create_reset_link(self, actor: Actor, name: str) -> OneTimeLink:
        """Create a link that can be used once to set a new password.

        Raises:
            Conflict: an identity source manages the password, or the account is disabled.
            NotFound, NotAllowed: there is no such user, or the actor is not an administrator.
        """
        user = await self._get_administered_user(actor, name)
        require_full_login(actor, "A reset link")
        _require_own_password(user)
        if user.disabled:
            raise Conflict(f"The account {name} is disabled. Enable it first.")
        secret = new_secret()
        expires_at = self._clock() + timedelta(seconds=self._settings.auth.reset_link_lifetime)
        data = {"expires_at": expires_at.isoformat()}
        await self._store.add_single_use_secret(_RESET, hash_secret(secret), name, expires_at, data)
        return OneTimeLink(f"{self._settings.portal_url}/reset#token={secret}", expires_at)

    async def reset_password(
        self, token: str, password: str, *, delete_tokens: bool = False
    ) -> str:
        """Set the password of the user for whom the reset link with ``token`` was created, and
        return the user's name.

        All sign-ins of the user end and the account is unlocked; with ``delete_tokens``, the access
        tokens are deleted too.

        Raises:
            NotAuthenticated: the link was used before or has expired.
            InvalidInput: the password is not permitted; the link remains valid.
        """
        # Hash the password first, so that a later failure does not use up the link.
        password_hash = await self._hasher.hash(password)
        now = self._clock()
        taken = await self._store.consume_single_use_secret(_RESET, hash_secret(token), now)
        user = None if taken is None else await self._store.get_user(taken[0])
        if taken is None or user is None or user.disabled or user.source is not None:
            raise NotAuthenticated(
                "This link was used before or has expired. Ask an administrator for a new one."
            )
        try:
            check_new_password(password, user)
        except InvalidInput:
            until = datetime.fromisoformat(taken[1]["expires_at"])
            await self._store.add_single_use_secret(
                _RESET, hash_secret(token), user.name, until, taken[1]
            )
            raise
        await self._store.set_password(
            user.name, password_hash, keep=None, delete_tokens=delete_tokens
        )
        await self._store.delete_lockout(self._lockout_key(user.name), below=True)
        return user.name

    async def unlock(self, actor: Actor, name: str) -> None:
        """Unlock the account and delete the counted failed logins with its name.

        Raises ``NotFound``, and ``NotAllowed`` unless the actor is an administrator.
        """
        await self._get_administered_user(actor, name)
        await self._store.delete_lockout(self._lockout_key(name), below=True)

    async def reset_factor(self, actor: Actor, name: str) -> None:
        """Remove the second factor of a user, and end all sign-ins of the user.

        Raises ``NotFound``, and ``NotAllowed`` unless the actor is an administrator.
        """
        await self._get_administered_user(actor, name)
        await self._factors.remove(name)
        await self._store.revoke_sign_ins(name)

    async def sign_out(self, actor: Actor, name: str) -> int:
        """End all sign-ins of a user and return their number.

        Raises ``NotFound``, and ``NotAllowed`` unless the actor is an administrator.
        """
        await self._get_administered_user(actor, name)
        return await self._store.revoke_sign_ins(name)

    async def impersonate(self, actor: Actor, name: str, cookie: str | None) -> datetime:
        """Impersonate the user ``name`` in the sign-in with this session cookie; return the time at
        which the impersonation ends.

        Raises:
            NotAllowed: the actor is not an administrator, or ``name`` is one.
            Conflict: the request was authenticated by a token instead of a browser login, or the
                account is disabled.
            NotFound: there is no such user.
        """
        user = await self._get_administered_user(actor, name)
        if user.role is Role.ADMIN:
            raise NotAllowed(
                f"{name} is an administrator, and administrators cannot be impersonated."
            )
        if user.disabled:
            raise Conflict(f"The account {name} is disabled, so {name} cannot be impersonated.")
        if cookie is None:
            raise Conflict(
                "Only a login of the portal can impersonate a user, not an access token."
            )
        until = self._clock() + timedelta(seconds=IMPERSONATION_S)
        await self._store.set_impersonation(hash_secret(cookie), new_secret(), name, until)
        return until

    async def end_impersonation(self, actor: Actor, cookie: str | None) -> None:
        """End the impersonation in the sign-in with this session cookie.

        Raises ``Conflict`` if there is none.
        """
        if actor.impersonator is None or cookie is None:
            raise Conflict("You do not impersonate another user.")
        await self._store.set_impersonation(hash_secret(cookie), new_secret(), None, None)

    def _lockout_key(self, name: str) -> str:
        return lockout_key(name, self._settings.auth.names.domains)

    async def _get_administered_user(self, actor: Actor, name: str) -> User:
        require_permission(PolicyAction.USER_ADMINISTER, actor, "user", name, owner=name)
        return await self._store.get_user(name)

    def _require_full_login(self, actor: Actor) -> None:
        require_permission(PolicyAction.SIGN_IN_WRITE, actor, "user", actor.name, owner=actor.name)
        require_full_login(actor, "A second factor")
        require_portal_login(actor, "A second factor")

    async def _prove_password(
        self, actor: Actor, current: str | None, *, first: bool = True
    ) -> None:
        """Check that ``current`` is the actor's current password.

        Args:
            first: whether a recent full login is sufficient if the account has no password yet.
        """
        refuse_impersonation(actor, "change passwords")
        stored = await self._store.find_password_hash(actor.name)
        if stored is None and first:  # a user who logged in by a link has no password yet
            require_full_login(actor, "A first password")
            require_portal_login(actor, "A first password")
            return
        await self._count_password_attempt(actor)
        if current is None or not await self._hasher.verify(actor.name, current, stored):
            raise NotAllowed("This requires your current password, and it is missing or wrong.")
        await self._store.delete_lockout(_password_key(actor))

    async def _count_password_attempt(self, actor: Actor) -> None:
        """Count one attempt at the actor's password; a correct password resets the count.

        Raises ``RateLimited`` if there were too many attempts.
        """
        auth = self._settings.auth
        attempt = await self._store.begin_login_attempt(
            _password_key(actor),
            self._clock(),
            max_failures=auth.max_failures,
            window_s=float(auth.failure_window),
            longest_s=float(auth.longest_lockout),
        )
        if not attempt.counted and attempt.locked_until is not None:
            wait_s = (attempt.locked_until - self._clock()).total_seconds()
            raise RateLimited(f"Too many wrong passwords. Wait {wait_s:.0f} seconds.", wait_s)

    async def _convert_code_error(self, check: Awaitable[T]) -> T:
        """Await ``check``, and convert its error for a wrong code to an error that does not log the
        user out.
        """
        try:
            return await check
        except NotAuthenticated as error:
            raise NotAllowed(error.message) from error


def _password_key(actor: Actor) -> str:
    return f"password:{actor.name}"


def _require_own_password(user: User) -> None:
    if user.source is not None:
        raise Conflict(f"{user.source} manages the password of {user.name}; change it there.")
