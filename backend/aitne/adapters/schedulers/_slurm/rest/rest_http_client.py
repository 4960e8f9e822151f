"""HTTP client of slurmrestd. Its errors distinguish requests that certainly had no effect from
those that may have had one (https://slurm.schedmd.com/rest.html).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from aitne.core.errors import SchedulerUnavailable, SetupError

CONNECT_S = 2.0
MAX_BODY_BYTES = 256 << 20
"""Maximum size of a response in bytes; the list of 10,000 jobs has 80 MB."""
_CONNECTIONS = 8


class NotReached(SchedulerUnavailable):
    """Error: the request certainly had no effect, because it was not sent or was rejected before it
    reached slurmctld.
    """

    code = "scheduler_not_reached"


class RestResponseLost(SchedulerUnavailable):
    """Error: the request was sent, but Slurm did not answer; whether it had an effect is
    unknown.
    """

    code = "scheduler_no_answer"


class RestResponseTooLarge(RestResponseLost):
    """Error: the response exceeds the caller's limit; whether the request had an effect
    is unknown.
    """

    code = "scheduler_answer_too_large"


@dataclass(frozen=True, slots=True)
class SlurmError:
    """Entry of the field ``errors`` in a response of slurmrestd: Slurm's error number
    (slurm_errno.h in https://github.com/SchedMD/slurm) and its text.
    """

    number: int | None
    text: str


@dataclass(frozen=True, slots=True)
class RestResponse:
    """Response of slurmrestd to one request."""

    status: int
    body: Mapping[str, Any]
    problems: tuple[SlurmError, ...] = ()
    refusals: tuple[SlurmError, ...] = ()
    """Errors for single tasks of a job in a response to a request that succeeded as a whole."""

    @property
    def ok(self) -> bool:
        """Return True if the request succeeded."""
        return self.status < 400 and not self.problems

    @property
    def error_text(self) -> str:
        """Return all errors of the response as one line."""
        return "; ".join(problem.text for problem in self.problems) or f"HTTP {self.status}"


class RestClient:
    """HTTP client of slurmrestd that keeps a few connections open. ``url`` is
    ``http(s)://host:port`` or ``unix:/path``.
    """

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.url = url
        base, way = _parse_rest_url(url)
        limits = httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=30)
        self._http = httpx.AsyncClient(
            base_url=base,
            # Never use a proxy of the environment: it would receive the token.
            transport=transport
            or httpx.AsyncHTTPTransport(uds=way, limits=limits, trust_env=False),
            trust_env=False,
            follow_redirects=False,
            headers={"Accept": "application/json"},
        )

    async def close(self) -> None:
        """Close the HTTP connections to slurmrestd."""
        await self._http.aclose()

    async def send_request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        query: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_s: float,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> RestResponse:
        """Send a request and read the whole response.

        Raises:
            NotReached: no process listens at ``url``, so the request had no effect.
            RestResponseLost: no valid response was received, so the effect is unknown.
        """
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        try:
            async with self._http.stream(
                method,
                path,
                headers=dict(headers),
                params=None if query is None else dict(query),
                json=None if body is None else dict(body),
                timeout=timeout,
            ) as stream:
                return _parse_response(stream.status_code, await _read_body(stream, most_bytes))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotReached(
                f"slurmrestd at {self.url} cannot be reached: {_format_http_error(error)}."
            ) from error
        except httpx.HTTPError as error:
            raise RestResponseLost(
                f"slurmrestd at {self.url} did not answer {method} {path}: {_format_http_error(error)}."
            ) from error


def _parse_rest_url(url: str) -> tuple[str, str | None]:
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if path.startswith("/"):
            return "http://slurmrestd", path
    elif url.startswith(("http://", "https://")):
        return url.rstrip("/"), None
    raise SetupError(f"slurm.rest_url = {url!r}: write http://host:port or unix:/path.")


async def _read_body(stream: httpx.Response, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in stream.aiter_bytes():
        size += len(part)
        if size > max_bytes:
            raise RestResponseTooLarge(
                f"slurmrestd sends more than {max_bytes >> 20} MiB in one response; it was not read."
            )
        parts.append(part)
    return b"".join(parts)


def _parse_response(status: int, text: bytes) -> RestResponse:
    try:
        body = json.loads(text) if text.strip() else {}
    except ValueError:
        body = None
    if not isinstance(body, dict):
        words = " ".join(text[:300].decode("utf-8", "replace").split())
        if status < 400:
            raise RestResponseLost(f"slurmrestd answered {status} with what is not JSON: {words}")
        body = {"errors": [{"error": words}]} if words else {}
    return RestResponse(
        status=status,
        body=body,
        problems=tuple(_parse_error(entry) for entry in _to_list(body.get("errors"))),
        refusals=tuple(_list_errors(body.get("status"))),
    )


def _parse_error(entry: object) -> SlurmError:
    """Parse one error object. For rejected submissions its number is in ``error_code`` in 22.05,
    otherwise in ``error_number``.
    """
    if not isinstance(entry, dict):
        return SlurmError(None, str(entry))
    number = entry.get("error_number", entry.get("error_code"))
    words = [str(entry[key]) for key in ("error", "description") if entry.get(key)]
    return SlurmError(
        number if isinstance(number, int) else None, ": ".join(words) or "no reason given"
    )


def _list_errors(value: object) -> Iterator[SlurmError]:
    for entry in _to_list(value):
        error = entry.get("error") if isinstance(entry, dict) else None
        if isinstance(error, dict) and error.get("code"):
            code = error["code"]
            text = str(error.get("message") or error.get("string") or "no reason given")
            yield SlurmError(code if isinstance(code, int) else None, text)


def _to_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _format_http_error(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return str(error) or type(error).__name__
