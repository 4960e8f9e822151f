"""Logging in, and who a credential speaks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError

from aitne.core.errors import NotAuthenticated, NotFound, RateLimited
from aitne.core.models.base import UserName
from aitne.core.models.user import Actor, Scope, User
from aitne.core.policy import require_full_login
from aitne.core.ports.identity import IdentitySource
from aitne.core.ports.store import UserStore
from aitne.core.settings import Settings
from aitne.services.secrets import hashed, new_secret

TOKEN_PREFIX = "aitne_pat_"  # noqa: S105 - how a token begins
_LINK = "login_link"
_NAME: TypeAdapter[str] = TypeAdapter(UserName)
_WRONG = "The name or the password is wrong."


@dataclass(frozen=True, slots=True)
class WebSession:
    """A browser's login."""

    actor: Actor
    csrf: str


@dataclass(frozen=True, slots=True)
class WebLogin:
    """A new login: ``token`` goes into the cookie, and only its hash is stored."""

    actor: Actor
    csrf: str
    token: str


@dataclass(frozen=True, slots=True)
class Link:
    """A one-time login link."""

    url: str
    expires_at: datetime


class IdentityService:
    """Every credential is 256 random bits of which only a hash is stored."""

    def __init__(
        self,
        store: UserStore,
        settings: Settings,
        clock: Callable[[], datetime],
        source: IdentitySource,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._source = source

    async def login(self, username: str, password: str, *, address: str) -> WebLogin:
        """Log in with a password.

        Raises:
            NotAuthenticated: wrong, unknown or disabled, and it does not say which.
            RateLimited: too many failures for this name or from this address.
        """
        # A name can be any text here; hashed, it fits the store and says nothing in it.
        keys = (f"name:{hashed(username)}", f"address:{address}")
        for key in keys:
            await self._count(key)
        user = await self._find(username)
        stored = await self._store.password_hash(username) if user is not None else None
        valid = await self._source.verify(username, password, stored)
        if not valid or user is None or user.disabled:
            raise NotAuthenticated(_WRONG)
        for key in keys:
            await self._store.clear_attempts(key)
        return await self._begin(user)

    async def create_login_link(self, actor: Actor) -> Link:
        """A link that logs the actor in, once.

        Raises:
            NotAllowed: the token in use may do less than the login that the link gives.
        """
        require_full_login(actor, "A login link")
        secret = new_secret()
        expires_at = self._clock() + timedelta(seconds=self._settings.auth.login_link_lifetime)
        await self._store.put_secret(_LINK, hashed(secret), actor.name, expires_at, {})
        return Link(f"{self._settings.portal_url}/login#link={secret}", expires_at)

    async def login_by_link(self, token: str) -> WebLogin:
        """Log in with the token of a link. Raises ``NotAuthenticated``."""
        taken = await self._store.take_secret(_LINK, hashed(token), self._clock())
        user = await self._find(taken[0]) if taken is not None else None
        if user is None or user.disabled:
            raise NotAuthenticated(
                "This login link was used before or has expired. Ask for a new one, or log in "
                "with your password."
            )
        return await self._begin(user)

    async def logout(self, token: str) -> None:
        """End a browser's login; an unknown one is no error."""
        await self._store.end_web_session(hashed(token))

    async def is_logged_in(self, token: str) -> bool:
        """Whether a cookie's token is a login that holds."""
        return await self._store.web_session(hashed(token), self._clock()) is not None

    async def actor_of_session(self, token: str) -> WebSession:
        """Whom a cookie's token speaks for. Raises ``NotAuthenticated``."""
        found = await self._store.web_session(hashed(token), self._clock())
        if found is None:
            raise NotAuthenticated("Your login has ended. Log in again.")
        user, csrf = found
        return WebSession(await self._actor(user, frozenset(Scope)), csrf)

    async def actor_of_token(self, token: str) -> Actor:
        """Whom a personal access token speaks for. Raises ``NotAuthenticated``."""
        found = None
        if token.startswith(TOKEN_PREFIX):
            found = await self._store.token_user(hashed(token), self._clock())
        if found is None:
            raise NotAuthenticated(
                "This token is unknown, was revoked or has expired. Make a new one under Tokens "
                "in the portal."
            )
        user, stored = found
        return await self._actor(user, stored.scopes)

    async def _begin(self, user: User) -> WebLogin:
        token, csrf = new_secret(), new_secret()
        expires_at = self._clock() + timedelta(seconds=self._settings.auth.session_lifetime)
        await self._store.create_web_session(hashed(token), user.name, csrf, expires_at)
        return WebLogin(await self._actor(user, frozenset(Scope)), csrf, token)

    async def _actor(self, user: User, scopes: frozenset[Scope]) -> Actor:
        return Actor(user=user, scopes=scopes, projects=await self._store.projects_of(user.name))

    async def _find(self, name: str) -> User | None:
        try:
            return await self._store.get_user(_NAME.validate_python(name))
        except (NotFound, ValidationError):
            return None

    async def _count(self, key: str) -> None:
        auth = self._settings.auth
        tries = await self._store.note_attempt(
            key, self._clock(), window_s=float(auth.failure_window)
        )
        if tries > auth.max_failures:
            raise RateLimited(
                f"Too many failed logins. Wait {auth.failure_window} seconds, or use a login link.",
                float(auth.failure_window),
            )
