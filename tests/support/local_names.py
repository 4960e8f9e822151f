"""A client that treats ``*.localhost`` as Chromium does: it is this machine, and secure without https."""

from __future__ import annotations

import ssl
from typing import Any

import httpx

SECURE = "was-secure"
"""The attribute of a cookie that was ``Secure``: the client's own jar would not send it over http."""


def address_of(host: str) -> str:
    """Return loopback's address for ``localhost`` and the names below it, and other names unchanged."""
    return "127.0.0.1" if f".{host}".endswith(".localhost") else host


class _Loopback(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Connect to loopback; the Host header and the certificate keep the name."""
        address = address_of(request.url.host)
        if address == request.url.host:
            return super().handle_request(request)
        local = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        answer = super().handle_request(local)
        if request.url.scheme == "https":
            return answer
        answer.headers = httpx.Headers(
            [
                (name, value.replace("; Secure", f"; {SECURE}") if name == "set-cookie" else value)
                for name, value in answer.headers.multi_items()
            ]
        )
        return answer


def browser(verify: ssl.SSLContext | bool = True, **options: Any) -> httpx.Client:
    """Return a client with cookies and redirects that finds ``*.localhost``."""
    transport = _Loopback(verify=verify)
    return httpx.Client(transport=transport, follow_redirects=True, timeout=30, **options)
