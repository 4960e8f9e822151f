"""URLs of forward proxies in the settings."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field


def check_proxy_url(text: str) -> str:
    """Return the URL of a forward proxy unchanged.

    Raises ``ValueError`` unless it has the form ``http://HOST:PORT`` or ``https://HOST:PORT``.
    """
    url = urlsplit(text)
    port = url.port  # raises ValueError for an invalid port
    if url.username is not None or url.password is not None:
        raise ValueError("it must not have a name and password: the settings hold no secrets")
    if url.scheme not in ("http", "https") or not url.hostname or not port:
        raise ValueError("write the proxy as http://HOST:PORT")
    if url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError("write the proxy as http://HOST:PORT, without a path")
    return text


ProxyUrl = Annotated[
    str, Field(max_length=500, pattern=r"^[!-~]+$"), AfterValidator(check_proxy_url)
]
"""URL of a forward proxy, such as ``http://proxy.example.org:3128``."""
