"""Requirements of the network: names in DNS, and the certificates of the site."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from aitne.core.errors import SetupError
from aitne.core.sessions.host_names import WILDCARD
from aitne.core.settings import Settings
from aitne.operations.requirements.findings import Finding, make_failed_finding, make_ok_finding

ANY_USER = "aitne-doctor."
"""Host name of no user, in place of the wildcard in the address of sessions."""


def list_urls(settings: Settings) -> list[str]:
    """Return the URLs by which browsers and nodes reach the platform."""
    urls = [settings.portal_url, settings.sessions_base.replace(WILDCARD, ANY_USER, 1)]
    if settings.capabilities.remote:
        urls += [
            settings.agents_url,
            *([settings.hub_connect_url] if settings.hub_connect_url else []),
        ]
    return urls


def check_names(urls: Iterable[str]) -> Finding:
    """Check that the host names of URLs have addresses, as this machine sees them."""
    missing, seen = [], []
    for name in dict.fromkeys(urlsplit(url).hostname or "" for url in urls):
        if name.endswith(".localhost"):
            continue  # browsers resolve these names themselves (RFC 6761)
        try:
            socket.getaddrinfo(name, None)
            seen.append(name)
        except OSError:
            missing.append(name)
    if missing:
        shown = ", ".join(name.replace(ANY_USER, WILDCARD, 1) for name in missing)
        return make_failed_finding(
            f"These names have no address in DNS: {shown}.",
            "Add an A or AAAA record for each (a wildcard record for `*.`), or correct public_url and "
            "sessions_url.",
        )
    return make_ok_finding(
        f"{len(seen)} names resolve: {', '.join(seen)}." if seen else "Browsers resolve all names."
    )


def check_certificates(check: Callable[[], None], section: str) -> Finding:
    """Return the outcome of ``check``, which raises ``SetupError`` for a certificate that cannot be
    used; ``section`` is the place of its path, such as ``[tls]``.
    """
    try:
        check()
    except SetupError as error:
        return make_failed_finding(error.message, f"Correct the files, or the section {section}.")
    return make_ok_finding(f"The certificates in {section} have the right names and keys.")
