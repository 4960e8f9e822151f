"""Rate limits: token buckets per user for changing requests, per client network for logins, and per
job for its agent and its program.

Each process counts for itself. The limits are generous for interactive use, and stop a script that
sends requests in a loop.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from aitne.core.errors import RateLimited
from aitne.core.users.auth_settings import RateSettings

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

    def take_token(self, key: str) -> None:
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

    def return_token(self, key: str) -> None:
        """Return a token that was taken from the bucket of ``key``."""
        if (bucket := self._buckets.get(key)) is not None:
            bucket.tokens += 1


class JobRates:
    """Rate limits for the requests of agents and of programs in jobs.

    Requests with an accepted job token count against buckets of that token. Requests with an
    unknown token count against the bucket of the client's network, so that invalid tokens do not
    affect jobs whose token is known, and many jobs can start on one node at the same time.
    """

    def __init__(self, per_minute: int, burst: int, clock: Callable[[], float]) -> None:
        self._accepted = TokenBuckets(per_minute, burst, clock)
        self._unknown = TokenBuckets(per_minute, burst, clock)
        self._known: OrderedDict[str, None] = OrderedDict()
        """Hashes of the tokens that were accepted, the most recent last."""

    def count_request(self, sender: str, token_hash: str, network: str) -> bool:
        """Count a request before its token is checked, and return whether it counts against
        ``network``. Raises ``RateLimited``.

        ``sender`` is the part of the job that sends the request; each part has a limit of its own.
        """
        if token_hash in self._known:
            self._accepted.take_token(f"{sender}:{token_hash}")
            return False
        self._unknown.take_token(network)
        return True

    def accept_token(self, token_hash: str, counted_network: str | None) -> None:
        """Record that a token was accepted. ``counted_network`` is the network against which the
        request was counted; that is undone. None: the request was counted against the job.
        """
        if counted_network is not None:
            self._unknown.return_token(counted_network)
        self._known[token_hash] = None
        self._known.move_to_end(token_hash)
        if len(self._known) > _MOST_KEYS:
            self._known.popitem(last=False)

    def reject_token(self, token_hash: str) -> None:
        """Record that a token is invalid or no longer valid."""
        self._known.pop(token_hash, None)


class RateLimits:
    """Rate limits of one application, as token buckets: for changing requests by user, for requests
    of jobs, for logins by network, for programs that wait until their login is confirmed, and for
    messages of jobs to their owners."""

    def __init__(self, settings: RateSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.changes = TokenBuckets(settings.changes_per_minute, settings.changes_burst, clock)
        self.jobs = JobRates(settings.changes_per_minute, settings.changes_burst, clock)
        self.logins = TokenBuckets(settings.logins_per_minute, settings.logins_burst, clock)
        self.messages = TokenBuckets(_MESSAGES_PER_MINUTE, _MESSAGES_BURST, clock)
        self.device_polls = TokenBuckets(_DEVICE_POLLS_PER_MINUTE, _DEVICE_POLLS_BURST, clock)
