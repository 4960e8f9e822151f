"""Host names of users' sessions, for sites where each user has a host name.

JupyterHub loads this file in its own Python environment, so it imports only the standard library.
"""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

WILDCARD = "*."
_RESERVED = frozenset({"api", "hub", "portal", "www"})
"""DNS labels that are not assigned to users, because a host name with such a label could be
mistaken for an official page of the platform's operator.
"""
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?")

_URL = re.compile(
    r"(?P<scheme>https?)://\*\.(?P<host>(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*)(?::[0-9]{1,5})?"
)


def user_label(name: str) -> str:
    """Return the DNS label of a user: the name or, if that is no valid label, a digest of it.

    Two names never have the same label: a label from a digest contains ``--``, and a name that
    contains ``--`` is replaced by a digest too.
    """
    if _LABEL.fullmatch(name) and "--" not in name and name not in _RESERVED:
        return name
    stub = re.sub("[^a-z0-9]", "", name.lower())[:8] or "x"
    return f"u-{stub}--{hashlib.sha256(name.encode()).hexdigest()[:20]}"


def make_host_name(name: str, domain: str, kind: str) -> str:
    """Return the host name below ``domain``, as ``JupyterHub.subdomain_hook`` does; ``kind`` is
    ``user`` or ``service``.
    """
    label = user_label(name)
    return f"{label}.{domain}" if kind == "user" else f"{label}--{kind}.{domain}"


def check_wildcard_url(sessions_url: str, portal_url: str) -> None:
    """Check a ``sessions_url`` that contains a wildcard; one without is not checked.

    Raises:
        ValueError: the URL has neither the form ``https://*.HOST[:PORT]`` nor is it ``http`` below
            ``localhost``; or pages of users could set the portal's cookies, because one of the two
            hosts is below the other.
    """
    if "*" not in sessions_url:
        return
    match = _URL.fullmatch(sessions_url)
    if match is None:
        raise ValueError("sessions_url with a wildcard is https://*.HOST or https://*.HOST:PORT")
    host = match["host"]
    local = host == "localhost" or host.endswith(".localhost")
    if match["scheme"] == "http" and not local:
        raise ValueError("sessions_url with a wildcard needs https, except http://*.localhost:PORT")
    portal = urlsplit(portal_url).hostname or ""
    # Browsers refuse cookies for all of localhost.
    if portal.endswith(f".{host}") or (portal == host and host != "localhost"):
        raise ValueError(f"public_url must not be {host} or below it: users' hosts are there")
    if host.endswith(f".{portal}") and portal != "localhost":
        raise ValueError(f"sessions_url must not be below {portal}: sessions could set its cookies")
