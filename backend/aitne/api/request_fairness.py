"""Fair sharing of the API among users: requests of one user cannot delay those of the others for
long.

The API is one process with one event loop. Requests of a user that have used much of its time
recently wait while other users' requests are served, and run one at a time while other users are
active. A request is rejected only if too many requests of the same user wait already. This is
weighted fair queueing with measured costs, after Demers, Keshav and Shenker 1989.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from types import coroutine
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aitne.api.audit_middleware import find_actor
from aitne.api.edge_middleware import UPLOADS
from aitne.api.problems import problem_response
from aitne.core.errors import RateLimited
from aitne.services.platform.shared_secrets import hash_secret
from aitne.services.users.authentication_service import address_lockout_key

PATHS = "/api/"
MOST_RUNNING = 8
"""Maximum number of running requests of one user."""
MOST_HEAVY_RUNNING = 4
"""Maximum number of running requests of all heavy users together."""
MOST_WAITING = 64
"""Maximum number of waiting requests of one user; further ones are rejected."""
MOST_HELD_BYTES = 16 << 20
"""Maximum size of the unfinished bodies of one user, which are held in memory; uploads are not."""
HEAVY_S = 1.0
"""Recently used seconds of the event loop from which a user counts as heavy; older use is
discounted."""
HALF_LIFE_S = 10.0
ACTIVE_S = 2.0
"""Seconds after a request during which its user counts as active."""
LONGEST_WAIT_S = 1.0
"""Seconds after which a heavy user's request runs even if other users are active."""
_WAIT_COST = 0.1
"""Cost of one second in which a request waits, for example for the database or the scheduler; in
seconds of the event loop."""
_MOST_KNOWN = 20_000


@dataclass(slots=True)
class RunningRequest:
    """A request that is being served."""

    user: str
    heavy: bool
    """Whether the user had used much of the event loop's time when the request began."""
    began: float
    """Time at which the request began, by the queue's clock."""
    loop_s: float = 0.0
    """Seconds for which this request has run on the event loop so far."""
    counted: bool = False
    """Whether the request currently counts as running."""
    ended: bool = False
    """Whether the request has ended."""


@dataclass(slots=True)
class _Usage:
    seconds: float
    at: float


class RequestQueue:
    """Requests of all users that run or wait, with the recent use of the event loop by each
    user."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._usage: OrderedDict[str, _Usage] = OrderedDict()
        """Recent use of the event loop by user, ordered by latest request, the most recent last."""
        self._running: Counter[str] = Counter()
        self._heavy = self._light = 0
        self._waiting: dict[str, deque[tuple[float, asyncio.Future[RunningRequest]]]] = {}

    async def wait_for_turn(self, user: str) -> RunningRequest:
        """Wait until a request of ``user`` may run.

        Raises:
            RateLimited: too many requests of the user wait already.
        """
        self._decay_usage(user)
        if user not in self._waiting and self._may_run(user, waited_s=0.0):
            return self._start_request(user)
        waiting = self._waiting.setdefault(user, deque())
        if len(waiting) >= MOST_WAITING:
            raise RateLimited(
                f"{MOST_WAITING} of your requests are waiting already. Continue when they are "
                "answered.",
                LONGEST_WAIT_S,
            )
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[RunningRequest] = loop.create_future()
        waiting.append((self._clock(), turn))
        # The clock of the loop is a little coarser than ``self._clock``.
        timer = loop.call_later(LONGEST_WAIT_S + 0.01, self._start_waiting_requests)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.finish(turn.result())
            self._start_waiting_requests()
            raise
        finally:
            timer.cancel()

    def finish(self, request: RunningRequest) -> None:
        """Add the cost of a finished request to its user's use, and start waiting requests. A
        second call does nothing."""
        if request.ended:
            return
        request.ended = True
        taken = request.loop_s + _WAIT_COST * (self._clock() - request.began)
        self._usage.setdefault(request.user, _Usage(0.0, self._clock())).seconds += taken
        self.pause(request)

    def pause(self, request: RunningRequest) -> None:
        """Exclude a request from the number of running ones while it waits for its client to send
        or read."""
        if request.counted:
            request.counted = False
            self._count_running(request, -1)
            self._start_waiting_requests()

    def resume(self, request: RunningRequest) -> None:
        """Count a request as running again after ``pause``, unless it has ended."""
        if not request.counted and not request.ended:
            request.counted = True
            self._count_running(request, 1)

    def _count_running(self, request: RunningRequest, by: int) -> None:
        self._running[request.user] += by
        if not self._running[request.user]:
            del self._running[request.user]
        if request.heavy:
            self._heavy += by
        else:
            self._light += by

    def _decay_usage(self, user: str) -> None:
        now = self._clock()
        usage = self._usage.setdefault(user, _Usage(0.0, now))
        usage.seconds *= 0.5 ** ((now - usage.at) / HALF_LIFE_S)
        usage.at = now
        self._usage.move_to_end(user)
        if len(self._usage) > _MOST_KNOWN:
            self._usage.popitem(last=False)

    def _get_used_seconds(self, user: str) -> float:
        usage = self._usage.get(user)
        return 0.0 if usage is None else usage.seconds

    def _has_other_active_users(self, user: str) -> bool:
        for other in reversed(self._usage):
            if other != user:
                return self._clock() - self._usage[other].at < ACTIVE_S
        return False

    def _may_run(self, user: str, *, waited_s: float) -> bool:
        running = self._running[user]
        if self._get_used_seconds(user) < HEAVY_S or not self._has_other_active_users(user):
            return running < MOST_RUNNING
        if running:
            return False
        return waited_s >= LONGEST_WAIT_S or (not self._light and self._heavy < MOST_HEAVY_RUNNING)

    def _start_request(self, user: str) -> RunningRequest:
        heavy = self._get_used_seconds(user) >= HEAVY_S
        request = RunningRequest(user, heavy, self._clock())
        self.resume(request)
        return request

    def _start_waiting_requests(self) -> None:
        """Start all waiting requests that may run now, beginning with the users that have used the
        least recently.
        """
        now = self._clock()
        for user in sorted(self._waiting, key=self._get_used_seconds):
            waiting = self._waiting[user]
            while waiting:
                since, turn = waiting[0]
                if turn.done():  # cancelled
                    waiting.popleft()
                elif self._may_run(user, waited_s=now - since):
                    waiting.popleft()
                    turn.set_result(self._start_request(user))
                else:
                    break
            if not waiting:
                del self._waiting[user]


class FairShare:
    """ASGI middleware that delays the requests of heavy users while requests of other users are
    served. Streams are counted only until their response begins.
    """

    def __init__(self, app: ASGIApp, *, cookie: str) -> None:
        """Create the middleware around ``app``. ``cookie`` is the name of the portal's login
        cookie."""
        self._app = app
        self._cookie = cookie
        self._queue = RequestQueue()
        self._users: OrderedDict[str, str] = OrderedDict()
        """User name by the hash of a login cookie or token that was valid in an earlier request."""
        self._held_bytes: Counter[str] = Counter()
        """Bytes of unfinished bodies by user."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, once its user's share permits it. It counts as running until its
        response begins, because a stream does not end."""
        if scope["type"] != "http" or not scope["path"].startswith(PATHS):
            await self._app(scope, receive, send)
            return
        credential = self._find_credential(scope)
        try:
            request = await self._queue.wait_for_turn(self._find_user(scope, credential))
        except RateLimited as error:
            response = problem_response(
                429,
                error.code,
                error.message,
                instance=scope["path"],
                headers={"Retry-After": str(round(LONGEST_WAIT_S))},
            )
            await response(scope, receive, send)
            return

        held_bytes = 0

        async def receive_paused() -> Message:
            nonlocal held_bytes
            self._queue.pause(request)
            try:
                message = await receive()
            finally:
                self._queue.resume(request)
            if message.get("more_body") and not scope["path"].startswith(UPLOADS):
                size = len(message.get("body", b""))
                held_bytes += size
                self._count_held_bytes(request.user, size)
            return message

        async def send_ended(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._queue.finish(request)
            await send(message)

        try:
            await _measure_steps(self._app(scope, receive_paused, send_ended), request)
        finally:
            self._queue.finish(request)
            self._held_bytes[request.user] -= held_bytes
            if not self._held_bytes[request.user]:
                del self._held_bytes[request.user]
            actor = find_actor(scope)
            if actor is not None and credential is not None:
                self._remember_user(credential, actor.impersonator or actor.name)

    def _count_held_bytes(self, user: str, size: int) -> None:
        self._held_bytes[user] += size
        if self._held_bytes[user] > MOST_HELD_BYTES:
            raise HTTPException(
                429,
                f"Your unfinished requests have more than {MOST_HELD_BYTES >> 20} MiB together. Send them "
                "one after the other.",
                {"Retry-After": str(round(LONGEST_WAIT_S))},
            )

    def _find_credential(self, scope: Scope) -> str | None:
        header = Headers(scope=scope).get("authorization")
        secret = header or Request(scope).cookies.get(self._cookie)
        return None if secret is None else hash_secret(secret)

    def _find_user(self, scope: Scope, credential: str | None) -> str:
        """Return the user to whom a request is charged; without a known credential, the client's
        network (``address ...``)."""
        user = None if credential is None else self._users.get(credential)
        if user is not None:
            return user
        client = scope.get("client")
        return f"address {address_lockout_key(client[0] if client else None)}"

    def _remember_user(self, credential: str, user: str) -> None:
        self._users[credential] = user
        self._users.move_to_end(credential)
        if len(self._users) > _MOST_KNOWN:
            self._users.popitem(last=False)


@coroutine
def _measure_steps(
    awaitable: Awaitable[None], request: RunningRequest
) -> Generator[Any, Any, None]:
    """Wait for an awaitable, and add the time that each of its steps takes on the event loop to
    ``request``."""
    work = awaitable.__await__()
    step: Callable[[Any], Any] = work.send
    value: Any = None
    while True:
        began = time.perf_counter()
        try:
            yielded = step(value)
        except StopIteration:
            return
        finally:
            request.loop_s += time.perf_counter() - began
        try:
            value = yield yielded
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the awaitable handles it
            step, value = work.throw, error
