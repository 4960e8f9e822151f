"""Second factor: time-based one-time codes (RFC 6238), and recovery codes for a lost device.

A secret is derived from a salt in the database and a key in a file of the platform, so the database
alone is not sufficient to compute codes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from aitne.core.errors import Conflict, NotAuthenticated, RateLimited
from aitne.core.models.sign_in_records import SecondFactor
from aitne.core.models.user import Role, User
from aitne.core.settings import Settings
from aitne.services.platform.shared_secrets import read_secret
from aitne.store.second_factors_and_lockouts import SecondFactorStore

KEY_NAME = "second_factor_key"
STEP_S = 30
RECOVERY_CODES = 10
_AROUND = (0, -1, 1)
"""Offsets from the current time step whose codes are accepted, because the clocks of devices
differ.
"""
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_WRONG = "The code is wrong, or was used before. Wait for the next one and try again."


@dataclass(frozen=True, slots=True)
class Enrolment:
    """New secret of a second factor for the user's authenticator app; shown only once."""

    secret: str
    """Secret as text, for manual entry."""
    uri: str
    """Secret as an ``otpauth:`` URI."""
    qr_svg: str
    """QR code of the URI, as SVG."""


@dataclass(frozen=True, slots=True)
class FactorState:
    """State of a user's second factor."""

    enabled: bool
    """Whether the user has confirmed a second factor."""
    required: bool
    """Whether the site requires a second factor of the user."""
    confirmed_at: datetime | None
    """Time of the confirmation; None: no second factor is enabled."""
    recovery_codes_left: int
    """Number of recovery codes that were not used yet."""


class SecondFactors:
    """Component that sets up second factors and checks codes; its callers decide when a code is
    required.
    """

    def __init__(
        self, store: SecondFactorStore, settings: Settings, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    def required(self, user: User) -> bool:
        """Return whether the site requires a second factor of the user."""
        rule = self._settings.auth.second_factor
        return rule == "all" or (rule == "admins" and user.role is Role.ADMIN)

    async def has_factor(self, name: str) -> bool:
        """Return whether the user has confirmed a second factor with a correct code."""
        factor = await self._store.find_second_factor(name)
        return factor is not None and factor.confirmed_at is not None

    async def state(self, user: User) -> FactorState:
        """Return the state of the user's second factor."""
        factor = await self._store.find_second_factor(user.name)
        enabled = factor is not None and factor.confirmed_at is not None
        return FactorState(
            enabled=enabled,
            required=self.required(user),
            confirmed_at=factor.confirmed_at if factor is not None else None,
            recovery_codes_left=await self._store.count_recovery_codes(user.name),
        )

    async def enrol(self, user: User) -> Enrolment:
        """Create the secret of a second factor; logins require no code before ``confirm``.

        Raises:
            Conflict: the user has a confirmed second factor.
        """
        factor = SecondFactor(owner=user.name, salt=secrets.token_hex(20), created_at=self._clock())
        await self._store.enrol_second_factor(factor)
        return self._make_enrolment(factor)

    async def confirm(self, user: User, code: str) -> list[str]:
        """Confirm the second factor with a first code; return the recovery codes, which are shown
        only once.

        Raises:
            NotAuthenticated: the code is wrong.
            Conflict: the user has no second factor to confirm.
            RateLimited: there were too many wrong codes.
        """
        factor = await self._store.find_second_factor(user.name)
        if factor is None or factor.confirmed_at is not None:
            raise Conflict("There is no second factor to confirm. Set one up first.")
        await self._count_attempt(user.name)
        step = self._find_matching_step(factor, code)
        if step is None:
            raise NotAuthenticated(_WRONG)
        codes = _new_codes()
        hashes = [self._code_hash(user.name, recovery_code) for recovery_code in codes]
        if not await self._store.confirm_second_factor(user.name, self._clock(), step, hashes):
            raise Conflict("There is no second factor to confirm. Set one up first.")
        await self._store.delete_lockout(_attempt_key(user.name))
        return codes

    async def check(self, name: str, code: str) -> str:
        """Check a code, which cannot be used again, and return its kind: ``totp`` or
        ``recovery_code``.

        Raises:
            NotAuthenticated: the code is wrong, or was used before.
            RateLimited: there were too many wrong codes.
        """
        await self._count_attempt(name)
        factor = await self._store.find_second_factor(name)
        if factor is None or factor.confirmed_at is None:
            raise NotAuthenticated(_WRONG)
        step = self._find_matching_step(factor, code)
        if step is not None and await self._store.use_time_step(name, step):
            how = "totp"
        elif await self._store.use_recovery_code(
            name, self._code_hash(name, _normalize_code(code))
        ):
            how = "recovery_code"
        else:
            raise NotAuthenticated(_WRONG)
        await self._store.delete_lockout(_attempt_key(name))
        return how

    async def renew_recovery_codes(self, name: str) -> list[str]:
        """Replace all recovery codes and return the new ones.

        Raises ``Conflict`` if there is no second factor.
        """
        if not await self.has_factor(name):
            raise Conflict("There is no second factor, so there are no recovery codes.")
        codes = _new_codes()
        await self._store.replace_recovery_codes(
            name, [self._code_hash(name, recovery_code) for recovery_code in codes]
        )
        return codes

    async def remove(self, name: str) -> bool:
        """Remove the second factor with its recovery codes and lockout.

        Return whether there was one.
        """
        await self._store.delete_lockout(_attempt_key(name))
        return await self._store.delete_second_factor(name)

    async def _count_attempt(self, name: str) -> None:
        auth = self._settings.auth
        attempt = await self._store.begin_login_attempt(
            _attempt_key(name),
            self._clock(),
            max_failures=auth.max_failures,
            window_s=float(auth.failure_window),
            longest_s=float(auth.longest_lockout),
        )
        if not attempt.counted and attempt.locked_until is not None:
            wait_s = (attempt.locked_until - self._clock()).total_seconds()
            raise RateLimited(
                f"Too many wrong codes. Wait {wait_s:.0f} seconds, or ask an administrator to reset "
                "your second factor.",
                wait_s,
            )

    def _find_matching_step(self, factor: SecondFactor, code: str) -> int | None:
        """Return the time step whose code is ``code``; None if the code matches none of the
        accepted steps.
        """
        import pyotp

        digits = code.replace(" ", "")
        totp = pyotp.TOTP(self._derive_secret(factor.salt), interval=STEP_S)
        now = int(self._clock().timestamp()) // STEP_S
        for step in (now + offset for offset in _AROUND):
            expected = totp.generate_otp(step)
            if step > factor.last_step and hmac.compare_digest(expected.encode(), digits.encode()):
                return step
        return None

    def _make_enrolment(self, factor: SecondFactor) -> Enrolment:
        import pyotp
        import segno

        secret = self._derive_secret(factor.salt)
        uri = pyotp.TOTP(secret, interval=STEP_S).provisioning_uri(
            name=factor.owner, issuer_name=self._settings.title
        )
        picture = io.BytesIO()
        # With its namespace, because it is an image file and not part of a page.
        segno.make(uri, error="m").save(
            picture, kind="svg", scale=4, border=4, light="#fff", xmldecl=False
        )
        return Enrolment(secret=secret, uri=uri, qr_svg=picture.getvalue().decode())

    def _derive_secret(self, salt: str) -> str:
        return base64.b32encode(self._compute_mac("secret", salt)[:20]).decode()

    def _code_hash(self, name: str, code: str) -> str:
        # Short enough to be guessed from a plain hash, so it is keyed.
        return self._compute_mac("recovery", f"{name}\0{code}").hex()

    def _compute_mac(self, purpose: str, text: str) -> bytes:
        key = read_secret(self._settings, KEY_NAME).encode()
        message = f"{purpose}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(key, message, hashlib.sha256).digest()


def _attempt_key(name: str) -> str:
    return f"factor:{name}"


def _new_codes() -> list[str]:
    def part() -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(5))

    return [f"{part()}-{part()}" for _ in range(RECOVERY_CODES)]


def _normalize_code(code: str) -> str:
    """Return a recovery code in the form in which it was issued: spaces and hyphens of the input
    are normalized, and letters are lower-case.
    """
    letters = code.replace(" ", "").replace("-", "").lower()
    return f"{letters[:5]}-{letters[5:]}"
