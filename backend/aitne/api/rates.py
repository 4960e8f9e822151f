"""Rate limits: token buckets per user for changing requests, and per client network for logins.

Each process counts for itself. The limits are generous for interactive use, and stop a script that
sends requests in a loop.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from aitne.core.errors import RateLimited
from aitne.core.users.settings import RateSettings

_MOST_KEYS = 20_000
"""Maximum number of buckets. The least recently used is removed; if used again, it is full."""

_DEVICE_POLLS_PER_MINUTE, _DEVICE_POLLS_BURST = 15, 3
"""Maximum number of requests per minute, and in immediate succession, by which one program may ask
for the token of a device login. It is slightly higher than a program needs that keeps to the
polling interval it was given.
"""


_MESSAGES_PER_MINUTE, _MESSAGES_BURST = 2, 10
"""Maximum number of messages per minute, and in immediate succession, that all jobs of one user may
send to the user: each may become a mail.
"""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class TokenBuckets:
    """Token buckets by key: each gains ``per_minute`` tokens a minute and holds at most
    ``burst``."""

    def __init__(
        self, per_minute: int, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_minute / 60
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, key: str) -> None:
        """Take one token from the bucket of ``key``.

        Raises:
            RateLimited: the bucket is empty; the error states the time to wait.
        """
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(self._burst, now)
            if len(self._buckets) > _MOST_KEYS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_s)
        bucket.at = now
        if bucket.tokens < 1:
            wait_s = (1 - bucket.tokens) / self._per_s
            raise RateLimited(
                f"Too many requests. Continue in {wait_s:.1f} seconds; earlier requests are not "
                "undone.",
                wait_s,
            )
        bucket.tokens -= 1


class RateLimits:
    """Rate limits of one application, as token buckets: for changing requests by user, for logins
    by network, for programs that wait until their login is confirmed, and for messages of jobs to
    their owners."""

    def __init__(self, settings: RateSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.changes = TokenBuckets(settings.changes_per_minute, settings.changes_burst, clock)
        self.logins = TokenBuckets(settings.logins_per_minute, settings.logins_burst, clock)
        self.messages = TokenBuckets(_MESSAGES_PER_MINUTE, _MESSAGES_BURST, clock)
        self.device_polls = TokenBuckets(_DEVICE_POLLS_PER_MINUTE, _DEVICE_POLLS_BURST, clock)
