"""Known browsers: wrong passwords sent from other browsers do not lock out a user who has logged in
before.

The browser keeps a signed cookie for one user name. It grants no access: failed logins with that
name in this browser are only counted separately. The signed data is not stored, so the database
does not grow with the number of browsers.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import datetime

from aitne.core.settings import Settings
from aitne.core.users.user_names import name_key
from aitne.services.platform.shared_secrets import read_secret
from aitne.services.users.second_factor import KEY_NAME

LIFETIME_S = 365 * 86_400
_LONGEST = 200


class KnownBrowsers:
    """Cookies that mark browsers in which a user has logged in before; they are signed with the key
    of second factors.
    """

    def __init__(self, settings: Settings, clock: Callable[[], datetime]) -> None:
        self._settings = settings
        self._clock = clock

    def make_cookie(self, name: str) -> str:
        """Return the cookie for a browser in which the user has just logged in."""
        number = secrets.token_urlsafe(16)
        until = int(self._clock().timestamp()) + LIFETIME_S
        return f"{number}.{until}.{self._compute_signature(name, number, until)}"

    def find_serial_number(self, name: str, cookie: str | None) -> str | None:
        """Return the serial number in the cookie, under which failed logins of this user in this
        browser are counted.

        None if the cookie is missing, invalid, expired or of another user.
        """
        if cookie is None or len(cookie) > _LONGEST:
            return None
        parts = cookie.split(".")
        if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdecimal()):
            return None
        number, until, signature = parts[0], int(parts[1]), parts[2]
        expected = self._compute_signature(name, number, until)
        if not hmac.compare_digest(signature.encode("utf-8", "surrogatepass"), expected.encode()):
            return None
        return number if self._clock().timestamp() < until else None

    def _compute_signature(self, name: str, number: str, until: int) -> str:
        key = read_secret(self._settings, KEY_NAME).encode()
        message = f"browser\0{name_key(name)}\0{number}\0{until}".encode("utf-8", "surrogatepass")
        return hmac.new(key, message, hashlib.sha256).hexdigest()
