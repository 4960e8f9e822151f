"""One-time links that log a user in without a password, or confirm a login that is too old."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import NotAllowed
from aitne.core.models.user import Actor
from aitne.core.settings import Settings
from aitne.core.users.permissions import refuse_impersonation, require_full_login
from aitne.services.platform.shared_secrets import hash_secret, new_secret
from aitne.services.users.login_results import OneTimeLink
from aitne.store import Store

_PURPOSE = "login_link"
_IN_ADDRESS = "link="
"""What precedes the token in the fragment of a link's address."""


@dataclass(frozen=True, slots=True)
class UsedLoginLink:
    """A link that was just used: whom it logs in, and what it may be worth at most."""

    owner: str
    token_id: str | None
    """Access token that made the link; None: a browser made it."""
    until: datetime | None
    """End of the credential that made the link; None: it does not end by itself."""
    authenticated_at: datetime | None
    """Last authentication in the browser that made the link; None: a token made it."""
    proves: bool
    """Whether an administrator's token with the scope ``admin`` made it."""


class LoginLinks:
    """Service that creates one-time links and uses each of them once. Only hashes are stored."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def create(self, actor: Actor) -> OneTimeLink:
        """Create a link that logs the actor in once, without a second factor.

        Raises:
            NotAllowed: the token in use has fewer permissions than the login by the link.
        """
        refuse_impersonation(actor, "create login links")
        require_full_login(actor, "A login link", outlives=False)
        secret = new_secret()
        expires_at = self._clock() + timedelta(seconds=self._settings.auth.login_link_lifetime)
        if actor.until is not None:
            expires_at = min(expires_at, actor.until)
        by_browser = actor.sign_in_id is not None
        data = {
            "token_id": actor.token_id,
            "until": _format_time(actor.until),
            "authenticated_at": _format_time(actor.authenticated_at) if by_browser else None,
            "proves": actor.is_admin and actor.token_id is not None and not by_browser,
        }
        await self._store.add_single_use_secret(
            _PURPOSE, hash_secret(secret), actor.name, expires_at, data
        )
        return OneTimeLink(f"{self._settings.portal_url}/login#{_IN_ADDRESS}{secret}", expires_at)

    async def use(self, token: str) -> UsedLoginLink | None:
        """Use up the link with this token; None if it was used before or has expired."""
        taken = await self._store.consume_single_use_secret(
            _PURPOSE, hash_secret(token), self._clock()
        )
        if taken is None:
            return None
        owner, data = taken
        return UsedLoginLink(
            owner,
            data.get("token_id"),
            _parse_time(data.get("until")),
            _parse_time(data.get("authenticated_at")),
            bool(data.get("proves")),
        )

    async def redeem_proof(self, actor: Actor, link: str) -> None:
        """Check that ``link``, the address of a link or its token, proves that the actor is at the
        browser, and use it up.

        Links made by an administrator's token prove that, as a login with them does. A link that the
        browser itself has made proves nothing, and neither does one of another user's token, which
        must not lead to new credentials.

        Raises:
            NotAllowed: the link was used before, has expired, is another user's, or is no proof.
        """
        used = await self.use(_token_in(link))
        if used is None:
            raise NotAllowed(
                "This login link was used before or has expired. Run `aitne open --print` for a new one."
            )
        if used.owner != actor.name:
            raise NotAllowed(f"This login link is for another account, and you are {actor.name}.")
        outlived = used.until is not None and (actor.until is None or actor.until > used.until)
        tokens = await self._store.list_tokens(actor.name) if used.proves else ()
        if outlived or used.token_id not in {token.id for token in tokens}:
            raise NotAllowed(
                "This login link confirms nothing: only one from an administrator's token does that, and "
                "the token may not end before this login. Log out, and open the link for a new login."
            )


def _token_in(link: str) -> str:
    return link.strip().rpartition("#")[2].removeprefix(_IN_ADDRESS)


def _format_time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
