"""Login of programs without a browser: the user confirms a code in the portal (RFC 8628).

The database is not written before a user confirms. The device code is signed, and the user code is
derived from it, so that unauthenticated requests cannot fill the database.
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

from aitne.core.errors import AuthorizationPending, InvalidInput, NotAllowed, NotAuthenticated
from aitne.core.models.user import Actor, Scope, Token
from aitne.core.ports.store import Store
from aitne.core.settings import Settings
from aitne.services.platform.secrets import hashed, read_secret
from aitne.services.users.second_factor import KEY_NAME
from aitne.services.users.users import UserService

LIFETIME_S = 600
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

    @property
    def complete_url(self) -> str:
        """Return the URL of the confirmation page that already contains the user code."""
        return f"{self.verification_url}?code={self.user_code}"


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

    def begin(self, name: str) -> DeviceLogin:
        """Issue a device code and a user code; ``name`` becomes the name of the access token."""
        number = secrets.token_urlsafe(32)
        content = [number, int(self._clock().timestamp()), name]
        payload = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        return DeviceLogin(
            device_code=f"{payload}.{self._mac('device', payload).hex()}",
            user_code=self._user_code(number),
            verification_url=f"{self._settings.portal_url}/device",
            expires_in_s=LIFETIME_S,
            interval_s=INTERVAL_S,
        )

    async def confirm(
        self, actor: Actor, user_code: str, *, scopes: frozenset[Scope], lifetime_s: int | None
    ) -> None:
        """Permit the program that shows the user code to get an access token of the actor.

        Raises:
            InvalidInput: the code is mistyped.
            NotAllowed, ReauthenticationRequired: as ``UserService.create_token``.
        """
        code = self._checked(user_code)
        expires_at = await self._users.check_token(actor, scopes=scopes, lifetime_s=lifetime_s)
        await self._answer(
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

        Raises ``InvalidInput`` if the code is mistyped.
        """
        await self._answer(actor, self._checked(user_code), {})

    def read(self, device_code: str) -> str:
        """Return the serial number in a valid device code, by which requests are rate-limited.

        Raises ``NotAuthenticated`` if the code is invalid or expired.
        """
        return self._read(device_code)[0]

    async def redeem(self, device_code: str) -> tuple[Token, str]:
        """Exchange a confirmed device code for a token and its secret, once.

        Raises:
            AuthorizationPending: no user has confirmed the code yet.
            NotAllowed: the user has refused.
            NotAuthenticated: the code has expired, or the account is disabled.
        """
        number, name = self._read(device_code)
        code_hash = hashed(self._user_code(number))
        taken = await self._store.take_secret(_PURPOSE, code_hash, self._clock())
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

    async def _answer(self, actor: Actor, code: str, data: dict[str, object]) -> None:
        until = self._clock() + timedelta(seconds=LIFETIME_S)
        await self._store.put_secret(_PURPOSE, hashed(code), actor.name, until, data)

    def _read(self, device_code: str) -> tuple[str, str]:
        """Return the serial number in a device code and the name of its program.

        Raises ``NotAuthenticated`` if the code is invalid or expired.
        """
        payload, _, signature = device_code.partition(".")
        expected = self._mac("device", payload).hex()
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            raise NotAuthenticated(_EXPIRED)
        number, issued, name = json.loads(base64.urlsafe_b64decode(payload))
        issued_at = datetime.fromtimestamp(issued, UTC)
        if self._clock() >= issued_at + timedelta(seconds=LIFETIME_S):
            raise NotAuthenticated(_EXPIRED)
        return number, name

    def _user_code(self, number: str) -> str:
        letters = _letters(self._mac("user", number), _RANDOM_LETTERS)
        return _grouped(letters + self._check_letters(letters))

    def _check_letters(self, letters: str) -> str:
        return _letters(self._mac("check", letters), _CHECK_LETTERS)

    def _checked(self, user_code: str) -> str:
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
        return _grouped(letters)

    def _mac(self, kind: str, text: str) -> bytes:
        key = read_secret(self._settings, KEY_NAME).encode()
        message = f"device login\0{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(key, message, hashlib.sha256).digest()


def _letters(digest: bytes, count: int) -> str:
    number = int.from_bytes(digest, "big")
    letters = ""
    for _ in range(count):
        number, index = divmod(number, len(_LETTERS))
        letters += _LETTERS[index]
    return letters


def _grouped(letters: str) -> str:
    return "-".join(letters[start : start + 3] for start in range(0, len(letters), 3))
