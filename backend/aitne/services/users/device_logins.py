"""Login of programs without a browser: the user confirms a code in the portal (RFC 8628).

The device code is signed, and the user code is derived from it. What the user must see before the
confirmation is stored for ten minutes; the number of requests that wait is limited, because they
need no login.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from aitne.core.errors import (
    AuthorizationPending,
    InvalidInput,
    NotAllowed,
    NotAuthenticated,
    ReauthenticationRequired,
)
from aitne.core.models.access_token import Scope, Token
from aitne.core.models.sign_in_records import DeviceLoginRequest
from aitne.core.models.user import Actor
from aitne.core.settings import Settings
from aitne.core.units import format_duration
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.platform.shared_secrets import hash_secret, read_secret
from aitne.services.users.authentication_service import address_lockout_key
from aitne.services.users.browser_descriptions import describe_browser
from aitne.services.users.login_results import RequestOrigin
from aitne.services.users.second_factor import KEY_NAME
from aitne.services.users.users_and_tokens import UserService
from aitne.store import Store

LIFETIME_S = 600
DEFAULT_TOKEN_LIFETIME_S = 90 * 86_400
MOST_WAITING, MOST_OF_NETWORK = 2_000, 20
"""Maximum number of requests that wait for a confirmation: in total, and from one network."""
INTERVAL_S = 5
"""Minimum seconds between two requests of a program that waits for the confirmation."""
_PURPOSE = "device_login"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters of user codes: without vowels, so that no words result, and without letters that look
alike.
"""
_RANDOM_LETTERS, _CHECK_LETTERS = 7, 2
_EXPIRED = "The code has expired or was never issued. Run `aitne login` again."


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """Login that a program without a browser has started (RFC 8628)."""

    device_code: str
    """Secret code with which the program requests its token."""
    user_code: str
    """Code that the program shows to the user."""
    verification_url: str
    """URL of the page where the user enters the code."""
    expires_in_s: int
    """Seconds until both codes expire."""
    interval_s: int
    """Minimum number of seconds between two requests of the program for its token."""


class DeviceLoginService:
    """Service that issues codes to programs, lets users confirm them, and exchanges each confirmed
    code for one access token.
    """

    def __init__(
        self, store: Store, settings: Settings, clock: Callable[[], datetime], users: UserService
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._users = users

    async def begin_login(self, name: str, origin: RequestOrigin) -> DeviceLogin:
        """Issue a device code and a user code; ``name`` becomes the name of the access token.

        Raises ``RateLimited`` if too many requests wait for a confirmation.
        """
        number, now = secrets.token_urlsafe(32), self._clock()
        content = [number, int(now.timestamp()), name]
        payload = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        request = DeviceLoginRequest(
            name=name,
            program=describe_browser(origin.agent),
            address=origin.address,
            created_at=now,
            expires_at=now + timedelta(seconds=LIFETIME_S),
        )
        await self._store.add_device_login(
            request,
            hash_secret(self._user_code(number)),
            address_lockout_key(origin.address),
            max_requests=MOST_WAITING,
            max_of_network=MOST_OF_NETWORK,
        )
        return DeviceLogin(
            device_code=f"{payload}.{self._compute_mac('device', payload).hex()}",
            user_code=self._user_code(number),
            verification_url=f"{self._settings.portal_url}/device",
            expires_in_s=LIFETIME_S,
            interval_s=INTERVAL_S,
        )

    @property
    def token_lifetime_s(self) -> int:
        """Return the validity in seconds of a token for which no other one is requested."""
        return min(DEFAULT_TOKEN_LIFETIME_S, self._settings.auth.device_token_lifetime)

    async def get_request(self, actor: Actor, user_code: str) -> DeviceLoginRequest:
        """Return the request of the program that shows the user code.

        Raises ``InvalidInput`` if the code is mistyped, has expired, or was used before.
        """
        return await self._mark_request_seen(actor, self._parse_user_code(user_code))

    async def confirm(
        self, actor: Actor, user_code: str, *, scopes: frozenset[Scope], lifetime_s: int | None
    ) -> None:
        """Permit the program that shows the user code to get an access token of the actor, which is
        valid for ``lifetime_s`` seconds; None: for ``token_lifetime_s``.

        Raises:
            InvalidInput: the code is mistyped, has expired or was used before, or the lifetime is
                longer than permitted.
            ReauthenticationRequired: the user has not authenticated since seeing the request.
            NotAllowed: an access token authenticated the request; or as ``UserService.check_token``.
        """
        code = self._parse_user_code(user_code)
        request = await self._mark_request_seen(actor, code)
        if actor.sign_in_id is None:
            raise NotAllowed("Only a login of the portal can confirm a program, not a token.")
        if lifetime_s is None:
            lifetime_s = self.token_lifetime_s
        maximum_s = self._settings.auth.device_token_lifetime
        if lifetime_s > maximum_s:
            raise InvalidInput.field(
                "expires_in",
                "is longer than a token of a program may be valid",
                value=format_duration(lifetime_s),
                allowed=f"at most {format_duration(maximum_s)}",
            )
        expires_at = await self._users.check_token(actor, scopes=scopes, lifetime_s=lifetime_s)
        if actor.authenticated_at is None or actor.authenticated_at <= _seen_at(request):
            raise ReauthenticationRequired(
                "Confirm your identity with your password, a code of your second factor or, as an "
                "administrator, a new login link (`aitne open --print`): a program that logs in as you "
                "always requires it."
            )
        await self._store_answer(
            actor,
            code,
            {
                "scopes": sorted(scopes),
                "expires_at": None if expires_at is None else expires_at.isoformat(),
                "created_by": actor.token_created_by,
            },
        )

    async def deny(self, actor: Actor, user_code: str) -> None:
        """Refuse the login of the program that shows the user code.

        Raises ``InvalidInput`` if the code is mistyped, has expired, or was used before.
        """
        await self._store_answer(actor, self._parse_user_code(user_code), {})

    def get_serial_number(self, device_code: str) -> str:
        """Return the serial number in a valid device code, by which requests are rate-limited.

        Raises ``NotAuthenticated`` if the code is invalid or expired.
        """
        return self._parse_device_code(device_code)[0]

    async def redeem(self, device_code: str) -> tuple[Token, str]:
        """Exchange a confirmed device code for a token and its secret, once.

        Raises:
            AuthorizationPending: no user has confirmed the code yet.
            NotAllowed: the user has refused.
            NotAuthenticated: the code has expired, or the account is disabled.
        """
        number, name = self._parse_device_code(device_code)
        code_hash = hash_secret(self._user_code(number))
        taken = await self._store.consume_single_use_secret(_PURPOSE, code_hash, self._clock())
        if taken is None:
            raise AuthorizationPending("The code has not been confirmed in the portal yet.")
        owner, data = taken
        if not data:
            raise NotAllowed(f"{owner} refused this login in the portal.")
        expires_at = data["expires_at"]
        user = await self._store.get_user(owner)
        if user.disabled:
            raise NotAuthenticated(f"The account {owner} is disabled.")
        return await self._users.issue_token(
            owner=owner,
            name=name,
            scopes=frozenset(map(Scope, data["scopes"])),
            expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
            created_by=data["created_by"],
        )

    async def _mark_request_seen(self, actor: Actor, code: str) -> DeviceLoginRequest:
        require_permission(PolicyAction.TOKEN_WRITE, actor, "user", actor.name, owner=actor.name)
        request = await self._store.mark_device_login_seen(
            hash_secret(code), actor.name, self._clock()
        )
        if request is None:
            raise _make_unknown_code_error(code)
        return request

    async def _store_answer(self, actor: Actor, code: str, data: dict[str, object]) -> None:
        if not await self._store.delete_device_login(hash_secret(code)):
            raise _make_unknown_code_error(code)
        until = self._clock() + timedelta(seconds=LIFETIME_S)
        await self._store.add_single_use_secret(
            _PURPOSE, hash_secret(code), actor.name, until, data
        )

    def _parse_device_code(self, device_code: str) -> tuple[str, str]:
        """Return the serial number in a device code and the name of its program.

        Raises ``NotAuthenticated`` if the code is invalid or expired.
        """
        payload, _, signature = device_code.partition(".")
        expected = self._compute_mac("device", payload).hex()
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            raise NotAuthenticated(_EXPIRED)
        number, issued, name = json.loads(base64.urlsafe_b64decode(payload))
        issued_at = datetime.fromtimestamp(issued, UTC)
        if self._clock() >= issued_at + timedelta(seconds=LIFETIME_S):
            raise NotAuthenticated(_EXPIRED)
        return number, name

    def _user_code(self, number: str) -> str:
        letters = _encode_letters(self._compute_mac("user", number), _RANDOM_LETTERS)
        return _group_letters(letters + self._check_letters(letters))

    def _check_letters(self, letters: str) -> str:
        return _encode_letters(self._compute_mac("check", letters), _CHECK_LETTERS)

    def _parse_user_code(self, user_code: str) -> str:
        """Return the user code in its canonical form.

        Raises ``InvalidInput`` if it is mistyped.
        """
        letters = "".join(letter for letter in user_code.upper() if letter in _LETTERS)
        random = letters[:_RANDOM_LETTERS]
        expected = random + self._check_letters(random)
        if len(letters) != _RANDOM_LETTERS + _CHECK_LETTERS or not hmac.compare_digest(
            letters.encode(), expected.encode()
        ):
            raise InvalidInput.field(
                "user_code",
                "is not a code of this platform: compare each letter with your terminal",
                value=user_code[:40],
            )
        return _group_letters(letters)

    def _compute_mac(self, kind: str, text: str) -> bytes:
        key = read_secret(self._settings, KEY_NAME).encode()
        message = f"device login\0{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(key, message, hashlib.sha256).digest()


def _seen_at(request: DeviceLoginRequest) -> datetime:
    return request.seen_at or request.created_at


def _make_unknown_code_error(code: str) -> InvalidInput:
    return InvalidInput.field(
        "user_code", "has expired or was used before: run `aitne login` again", value=code
    )


def _encode_letters(digest: bytes, count: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = ""
    for _ in range(count):
        number, index = divmod(number, len(_LETTERS))
        letters += _LETTERS[index]
    return letters


def _group_letters(letters: str) -> str:
    return "-".join(letters[start : start + 3] for start in range(0, len(letters), 3))
