"""OAuth 2.0 provider for one fixed client: the platform's own JupyterHub.

Follows RFC 6749 (authorization code), RFC 7636 (PKCE, S256 only) and RFC 9700: the redirect URI is
compared exactly; a code is valid once, for a minute, and only with its verifier.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from aitne.core.errors import AitneError, InvalidInput, NotAuthenticated, NotFound
from aitne.core.models.base import Frozen
from aitne.core.models.user import Actor, Role, User
from aitne.core.settings import Settings
from aitne.services.platform.shared_secrets import hash_secret, new_secret, read_secret
from aitne.store import Store

CLIENT_ID = "jupyterhub"
CODE_LIFETIME_S = 60
ACCESS_LIFETIME_S = 60
_CODE = "oauth_code"
_ACCESS = "oauth_access"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class OAuthError(AitneError):
    """Error with the response that OAuth 2.0 defines; ``code`` is the error code of RFC 6749."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """Parameters of JupyterHub's authorization request, which the browser transmits."""

    response_type: str
    code_challenge: str
    code_challenge_method: str


@dataclass(frozen=True, slots=True)
class AccessToken:
    """OAuth access token that is valid for one userinfo request within ``expires_in_s`` seconds."""

    token: str
    expires_in_s: int
    """Seconds until the token expires."""


class UserInfo(Frozen):
    """Claims about the logged-in user, named as in OpenID Connect and JupyterHub."""

    sub: str
    sid: str
    """ID of the sign-in, with which the logins at JupyterHub end."""
    name: str
    preferred_username: str
    admin: bool


class OAuthService:
    """OAuth 2.0 provider for JupyterHub, which logs in users of the platform. All its state is in
    the store.
    """

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    @property
    def redirect_uri(self) -> str:
        """Return the only URL to which authorization codes are sent."""
        return f"{self._settings.sessions_origin}/hub/oauth_callback"

    def check_client(self, client_id: str, redirect_uri: str) -> None:
        """Check the client ID and the redirect URI.

        Raises ``InvalidInput`` if either is wrong; then the browser must not be redirected.
        """
        if client_id != CLIENT_ID:
            raise InvalidInput.field(
                "client_id", "is not a client of this platform", value=client_id, allowed=CLIENT_ID
            )
        if redirect_uri != self.redirect_uri:
            raise InvalidInput.field(
                "redirect_uri",
                "is not the client's",
                value=redirect_uri,
                allowed=self.redirect_uri,
            )

    def check_request(self, request: AuthorizationRequest) -> None:
        """Check the authorization request.

        Raises ``OAuthError``, which is reported to the client.
        """
        if request.response_type != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code.")
        if request.code_challenge_method != "S256" or not _CHALLENGE.fullmatch(
            request.code_challenge
        ):
            raise OAuthError("invalid_request", "PKCE with code_challenge_method S256 is needed.")

    async def issue_code(self, actor: Actor, redirect_uri: str, challenge: str) -> str:
        """Issue an authorization code for the actor; ``challenge`` is the client's PKCE
        challenge.
        """
        code = new_secret()
        await self._store.add_single_use_secret(
            _CODE,
            hash_secret(code),
            actor.name,
            self._clock() + timedelta(seconds=CODE_LIFETIME_S),
            {"redirect_uri": redirect_uri, "challenge": challenge, "sign_in": actor.sign_in_id},
        )
        return code

    async def exchange(
        self,
        *,
        client_id: str,
        client_secret: str,
        grant_type: str,
        code: str,
        redirect_uri: str,
        code_verifier: str,
    ) -> AccessToken:
        """Exchange an authorization code for an access token.

        Raises ``OAuthError`` if a parameter is wrong or the code is not valid.
        """
        secret = read_secret(self._settings, "oauth_client_secret")
        client_matches = hmac.compare_digest(client_id.encode(), CLIENT_ID.encode())
        if not hmac.compare_digest(client_secret.encode(), secret.encode()) or not client_matches:
            raise OAuthError("invalid_client", "The client is unknown or its secret is wrong.")
        if grant_type != "authorization_code":
            raise OAuthError("unsupported_grant_type", "grant_type must be authorization_code.")
        # Any request uses up its code, even an invalid one.
        taken = await self._store.consume_single_use_secret(_CODE, hash_secret(code), self._clock())
        if taken is None:
            raise OAuthError("invalid_grant", "The code is unknown, expired or was used before.")
        owner, data = taken
        if redirect_uri != data["redirect_uri"]:
            raise OAuthError("invalid_grant", "redirect_uri is not the one the code was sent to.")
        if not _VERIFIER.fullmatch(code_verifier) or not hmac.compare_digest(
            challenge_of(code_verifier), data["challenge"]
        ):
            raise OAuthError("invalid_grant", "code_verifier does not match the challenge.")
        token = new_secret()
        await self._store.add_single_use_secret(
            _ACCESS,
            hash_secret(token),
            owner,
            self._clock() + timedelta(seconds=ACCESS_LIFETIME_S),
            {"sign_in": data.get("sign_in")},
        )
        return AccessToken(token, ACCESS_LIFETIME_S)

    async def userinfo(self, token: str) -> UserInfo:
        """Return the user of the access token, and invalidate the token.

        Raises ``NotAuthenticated`` if the token is not valid.
        """
        taken = await self._store.consume_single_use_secret(
            _ACCESS, hash_secret(token), self._clock()
        )
        user = await self._find_user(taken[0]) if taken is not None else None
        sign_in_id = "" if taken is None else str(taken[1].get("sign_in"))
        valid = await self._store.is_credential_valid(sign_in_id, self._clock())
        if user is None or user.disabled or not valid:
            raise NotAuthenticated("The access token is unknown, expired or was used before.")
        return UserInfo(
            sid=sign_in_id,
            sub=user.name,
            name=user.display_name or user.name,
            preferred_username=user.name,
            admin=user.role is Role.ADMIN,
        )

    async def _find_user(self, name: str) -> User | None:
        try:
            return await self._store.get_user(name)
        except NotFound:
            return None


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of the verifier (RFC 7636)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
