"""Login of users, and determination of the user that a credential belongs to."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any

from aitne.core.errors import AitneError, NotAuthenticated, NotFound, RateLimited
from aitne.core.models.access_token import Scope
from aitne.core.models.project import ProjectRole
from aitne.core.models.sign_in_records import SignIn
from aitne.core.models.user import Actor, User
from aitne.core.ports.identity_source import LoginDenied
from aitne.core.sessions import session_variables
from aitne.core.settings import Settings
from aitne.core.users.user_names import name_key, remove_domain
from aitne.services.audit import AuditService
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.users.browser_descriptions import describe_browser
from aitne.services.users.known_browser_lockout import KnownBrowsers
from aitne.services.users.login_links import LoginLinks, UsedLoginLink
from aitne.services.users.login_results import (
    AuthRedirect,
    RequestOrigin,
    SecondStep,
    WebLogin,
    WebSession,
)
from aitne.services.users.login_service import IdentityUnavailable, LoginService
from aitne.services.users.second_factor import SecondFactors
from aitne.services.users.session_token_scope import get_owner_and_session
from aitne.store import Store

TOKEN_PREFIX = "aitne_pat_"  # noqa: S105 - how a token begins
TICKET_LIFETIME_S = 300
REDIRECT_LIFETIME_S = 600
_LINK_OVER = "This login link was used before or has expired. Ask for a new one, or log in with your password."
_TICKET, _REDIRECT = "second_step", "redirect"
_HARDLY_A_PASSWORD = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
"""Names that the audit log may contain although no account has them."""
_MOST_TRIES = 5
"""Maximum number of wrong codes per ticket; after that, the password is required again."""


class LoginExpired(NotAuthenticated):
    """Error: the second step of a login came too late, or its ticket was used before."""

    code = "login_expired"


def lockout_key(username: str, domains: Collection[str]) -> str:
    """Return the key under which failed logins with a name, which may be any text, are counted. All
    spellings of a name have the same key, those with one of ``domains`` included.

    It contains a hash, so that it has a fixed length and does not reveal the name.
    """
    return f"name:{hash_secret(name_key(remove_domain(username.strip(), domains)))}"


def address_lockout_key(address: str | None) -> str:
    """Return the key under which failed logins from an address are counted.

    For IPv6 it is the /64 network, because a host can choose any address in it.
    """
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((parsed, 64), strict=False))


class IdentityService:
    """Service that logs users in and identifies the actor of each request. Session tokens and
    access tokens are 256 random bits, of which only a hash is stored.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], datetime],
        arrivals: LoginService,
        factors: SecondFactors,
        audit: AuditService,
        links: LoginLinks,
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._factors = factors
        self._audit = audit
        self._browsers = KnownBrowsers(settings, clock)
        self.arrivals = arrivals
        self.links = links

    async def login(
        self, username: str, password: str, origin: RequestOrigin
    ) -> WebLogin | SecondStep:
        """Log in with a name and a password.

        Failures in a browser in which the user has logged in before are counted separately;
        otherwise wrong passwords sent by others could lock the user out.

        Raises:
            NotAuthenticated: the password is wrong, or the account is unknown or disabled; the
                message does not tell which.
            LoginDenied: both are correct, but the user may not use this platform.
            RateLimited: there were too many failures with this name, from this address, or in this
                browser.
            Unavailable: a source that may know the user does not answer.
        """
        domains = self._settings.auth.names.domains
        key, address_key = (
            lockout_key(username, domains),
            f"address:{address_lockout_key(origin.address)}",
        )
        browser_name = remove_domain(username.strip(), domains)
        browser_number = self._browsers.find_serial_number(browser_name, origin.browser)
        if browser_number is not None:
            key = f"{key}/{browser_number}"
        try:
            if browser_number is None:
                await self._count_address(address_key)
            locks = await self._count_attempt(key)
        except RateLimited:
            await self._record_login(username, "denied", origin, {"why": "rate_limited"})
            raise
        try:
            user, source = await self.arrivals.login_by_form(username, password)
        except IdentityUnavailable as error:
            # An outage does not count as an attempt.
            max_failures = self._settings.auth.max_failures
            await self._store.undo_login_attempt(key, self._clock(), max_failures=max_failures)
            if browser_number is None:
                await self._store.delete_last_attempt(address_key)
            await self._record_login(username, "failed", origin, {"why": error.code})
            raise
        except AitneError as error:
            why = error.why if isinstance(error, LoginDenied) else error.code
            details = {"why": why} | ({"locked": True} if locks else {})
            refused = isinstance(error, NotAuthenticated | LoginDenied)
            outcome = "denied" if refused else "failed"
            await self._record_login(username, outcome, origin, details)
            raise
        await self._store.delete_lockout(key)
        if browser_number is None:
            # Remove only this attempt: a login to another account must not reset the count of guesses.
            await self._store.delete_last_attempt(address_key)
        return await self._begin_login(user, source, origin, may_have_to_enrol=True)

    async def complete_second_step(self, ticket: str, code: str, origin: RequestOrigin) -> WebLogin:
        """Complete a login with the code of the second step; ``ticket`` is part of the result of
        the first step.

        Raises:
            LoginExpired: the ticket has expired or cannot be used again.
            NotAuthenticated: the code is wrong.
            RateLimited: there were too many wrong codes.
        """
        now = self._clock()
        taken = await self._store.consume_single_use_secret(_TICKET, hash_secret(ticket), now)
        user = await self.arrivals.find(taken[0]) if taken is not None else None
        if taken is None or user is None or user.disabled:
            raise LoginExpired("This took too long. Log in again with your password.")
        data = taken[1]
        codes: list[str] = []
        try:
            if data["enrol"]:
                codes = await self._factors.confirm(user, code)
                how = "totp"
            else:
                how = await self._factors.check(user.name, code)
        except AitneError as error:
            await self._record_login(user.name, "denied", origin, {"why": "second_factor"})
            tries = int(data["tries"]) + 1
            if isinstance(error, NotAuthenticated) and tries < _MOST_TRIES:
                expires_at = datetime.fromisoformat(data["expires_at"])
                ticket_data = {**data, "tries": tries}
                await self._store.add_single_use_secret(
                    _TICKET, hash_secret(ticket), user.name, expires_at, ticket_data
                )
            raise
        login = await self._create_sign_in(user, str(data["source"]), origin, tuple(codes))
        await self._record_login(
            user.name, "allowed", origin, {"source": data["source"], "second_factor": how}
        )
        return login

    async def login_by_link(self, token: str, origin: RequestOrigin | None = None) -> WebLogin:
        """Log in with the token of a one-time link.

        Raises ``NotAuthenticated`` if the link was used or has expired.
        """
        origin = origin or RequestOrigin()
        link = await self.links.use(token)
        user = await self.arrivals.find(link.owner) if link is not None else None
        if link is None or user is None or user.disabled:
            raise NotAuthenticated(_LINK_OVER)
        try:
            login = await self._create_sign_in(user, "link", origin, link=link)
        except NotFound as error:  # its token was revoked
            raise NotAuthenticated(_LINK_OVER) from error
        await self._record_login(user.name, "allowed", origin, {"source": "link"})
        return login

    async def begin_redirect(self, name: str, next_path: str) -> AuthRedirect:
        """Return the URL for a login with the identity source ``name``, and the proof for a cookie.

        ``next_path`` is the path of the portal to open after the login.

        Raises:
            NotFound: there is no such source.
            Unavailable: the provider does not answer.
        """
        source = self.arrivals.get_redirect_source(name)
        state, proof = new_secret(), new_secret()
        url, flow_data = await source.begin_login(state, self._redirect_uri(name))
        await self._store.add_single_use_secret(
            _REDIRECT,
            hash_secret(state),
            "",
            self._clock() + timedelta(seconds=REDIRECT_LIFETIME_S),
            {
                "source": name,
                "next": next_path,
                "proof": hash_secret(proof),
                "kept": dict(flow_data),
            },
        )
        return AuthRedirect(url, proof)

    async def finish_redirect(
        self, name: str, answer: Mapping[str, str], proof: str, origin: RequestOrigin
    ) -> tuple[WebLogin | SecondStep, str]:
        """Complete a login by redirect; return its result and the path that ``begin_redirect`` was
        given.

        ``answer`` are the query parameters with which the provider sent the browser back.

        Raises:
            NotFound: there is no such source.
            NotAuthenticated: no such login was started, or it has expired, or another browser
                started it.
            LoginDenied: the user may not use this platform.
            Unavailable: the provider does not answer.
        """
        source = self.arrivals.get_redirect_source(name)
        taken = await self._store.consume_single_use_secret(
            _REDIRECT, hash_secret(answer.get("state", "")), self._clock()
        )
        if taken is None or taken[1]["source"] != name or taken[1]["proof"] != hash_secret(proof):
            await self._record_login("?", "denied", origin, {"source": name, "why": "state"})
            raise NotAuthenticated("This login was started too long ago, or in another browser.")
        data = taken[1]
        try:
            identity = await source.finish_login(data["kept"], self._redirect_uri(name), answer)
            user = await self.arrivals.get_or_create_user(name, identity)
        except AitneError as error:
            await self._record_login("?", "denied", origin, {"source": name, "why": error.message})
            raise
        return await self._begin_login(user, name, origin, may_have_to_enrol=False), str(
            data["next"]
        )

    async def logout(self, token: str) -> None:
        """End the sign-in of this sign-in token; an unknown token is not an error."""
        await self._store.end_sign_in(hash_secret(token), self._clock())

    async def end_previous_sign_in(self, token: str, login: WebLogin) -> None:
        """Invalidate the sign-in token of the same browser's previous login; an unknown token is not
        an error.
        """
        await self._store.replace_sign_in(hash_secret(token), login.actor.name, self._clock())

    async def is_logged_in(self, token: str) -> bool:
        """Return whether the sign-in token belongs to a valid sign-in."""
        return await self._store.find_sign_in(hash_secret(token), self._clock(), None) is not None

    async def authenticate_sign_in(
        self, token: str, address: str | None = None, *, used: bool = False
    ) -> WebSession:
        """Return the sign-in of this sign-in token; ``used`` says whether the request shows that its
        user is present. Raises ``NotAuthenticated``.
        """
        idle_ends_at = self._idle_ends_at() if used else None
        login = await self._store.find_sign_in(
            hash_secret(token), self._clock(), address, idle_ends_at=idle_ends_at
        )
        if login is None:
            raise NotAuthenticated("Your login has ended. Log in again.")
        behind = {
            "until": login.token_expires_at,
            "token_id": login.sign_in.token_id,
            "token_created_by": login.token_created_by,
            "authenticated_at": login.authenticated_at,
            "sign_in_id": login.sign_in.id,
        }
        if login.impersonator is None:
            actor = await self._make_actor(login.user, frozenset(Scope))
            return WebSession(actor.model_copy(update=behind), login.csrf)
        actor = await self._make_actor(login.user, frozenset({Scope.READ, Scope.WRITE}))
        actor = actor.model_copy(update={**behind, "impersonator": login.impersonator})
        return WebSession(actor, login.csrf, login.sign_in.acting_until)

    async def authenticate_token(self, token: str) -> Actor:
        """Return the actor of an access token or session token. Raises ``NotAuthenticated``."""
        if token.startswith(session_variables.PREFIX):
            user, session = await get_owner_and_session(self._store, token)
            actor = await self._make_actor(user, frozenset({Scope.READ, Scope.WRITE}))
            return actor.model_copy(update={"session": session})
        match = None
        if token.startswith(TOKEN_PREFIX):
            match = await self._store.find_token_user(hash_secret(token), self._clock())
        if match is None:
            raise NotAuthenticated(
                "This token is unknown, was revoked or has expired. Create a new one under Tokens "
                "in the portal."
            )
        user, stored = match
        actor = await self._make_actor(user, stored.scopes)
        return actor.model_copy(
            update={
                "until": stored.expires_at,
                "token_id": stored.id,
                "token_created_by": stored.created_by,
            }
        )

    async def _begin_login(
        self, user: User, source: str, origin: RequestOrigin, *, may_have_to_enrol: bool
    ) -> WebLogin | SecondStep:
        """Log in, or return a ``SecondStep`` if a code is required first.

        None is required after a redirect, because the provider has second factors of its own.
        """
        has = await self._factors.has_factor(user.name)
        if not has and not (may_have_to_enrol and self._factors.required(user)):
            login = await self._create_sign_in(user, source, origin)
            await self._record_login(user.name, "allowed", origin, {"source": source})
            return login
        ticket = new_secret()
        expires_at = self._clock() + timedelta(seconds=TICKET_LIFETIME_S)
        data: dict[str, Any] = {
            "source": source,
            "tries": 0,
            "enrol": not has,
            "expires_at": expires_at.isoformat(),
        }
        await self._store.add_single_use_secret(
            _TICKET, hash_secret(ticket), user.name, expires_at, data
        )
        enrol = None if has else await self._factors.enrol(user)
        return SecondStep(ticket, expires_at, enrol)

    async def _create_sign_in(
        self,
        user: User,
        source: str,
        origin: RequestOrigin,
        recovery_codes: tuple[str, ...] = (),
        *,
        link: UsedLoginLink | None = None,
    ) -> WebLogin:
        """Create a sign-in. One by a ``link`` ends with the credential that made the link, and counts
        as no later authentication than that credential's.
        """
        until = None if link is None else link.until
        token, csrf, now = new_secret(), new_secret(), self._clock()
        expires_at = now + timedelta(seconds=self._settings.auth.session_lifetime)
        sign_in = SignIn(
            id=secrets.token_hex(8),
            owner=user.name,
            source=source,
            device=describe_browser(origin.agent),
            address=origin.address,
            created_at=now,
            last_seen_at=now,
            expires_at=expires_at if until is None else min(expires_at, until),
            token_id=None if link is None else link.token_id,
            authenticated_at=None if link is None else link.authenticated_at,
            idle_ends_at=self._idle_ends_at(),
        )
        unknown = self._browsers.find_serial_number(user.name, origin.browser) is None
        await self._store.create_sign_in(sign_in, hash_secret(token), csrf, notify=unknown)
        actor, browser = (
            await self._make_actor(user, frozenset(Scope)),
            self._browsers.make_cookie(user.name),
        )
        return WebLogin(actor, csrf, token, browser, recovery_codes)

    def _idle_ends_at(self) -> datetime:
        return self._clock() + timedelta(seconds=self._settings.auth.inactivity_duration)

    async def _make_actor(self, user: User, scopes: frozenset[Scope]) -> Actor:
        roles = await self._store.list_user_roles(user.name)
        manages = (name for name, role in roles.items() if role is ProjectRole.MANAGER)
        return Actor(
            user=user, scopes=scopes, projects=frozenset(roles), manages=frozenset(manages)
        )

    def _redirect_uri(self, name: str) -> str:
        return f"{self._settings.portal_url}/api/v1/auth/{name}/callback"

    async def _record_login(
        self, name: str, outcome: str, origin: RequestOrigin, details: Mapping[str, Any]
    ) -> None:
        if _HARDLY_A_PASSWORD.fullmatch(name) is None:
            # A password that was typed into the field for the name must not be stored in the log.
            typed = remove_domain(name.strip(), self._settings.auth.names.domains)
            user = await self.arrivals.find_user_ignoring_case(typed)
            name = "?" if user is None else user.name
        await self._audit.record(
            actor=name,
            action="login",
            object=None,
            outcome=outcome,
            address=origin.address,
            details=details,
        )

    async def _count_address(self, key: str) -> None:
        auth = self._settings.auth
        tries = await self._store.record_attempt(
            key, self._clock(), window_s=float(auth.failure_window)
        )
        if tries > auth.max_failures:
            raise _make_rate_limit_error(float(auth.failure_window))

    async def _count_attempt(self, key: str) -> bool:
        """Count one login with a password under ``key``; return whether its failure would lock the
        key: the name, or the name in this browser.
        """
        auth = self._settings.auth
        attempt = await self._store.begin_login_attempt(
            key,
            self._clock(),
            max_failures=auth.max_failures,
            window_s=float(auth.failure_window),
            longest_s=float(auth.longest_lockout),
        )
        if not attempt.counted and attempt.locked_until is not None:
            raise _make_rate_limit_error((attempt.locked_until - self._clock()).total_seconds())
        return attempt.locked_until is not None


def _make_rate_limit_error(wait_s: float) -> RateLimited:
    return RateLimited(
        f"Too many failed logins. Wait {wait_s:.0f} seconds, use a login link, or ask an "
        "administrator to unlock the name.",
        wait_s,
    )
