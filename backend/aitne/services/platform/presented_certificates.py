"""Certificates that the origins of the platform present when a reverse proxy serves TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from aitne.core.concurrent_coroutines import run_concurrently
from aitne.core.errors import Unavailable
from aitne.core.ports.health_probes import Probes
from aitne.core.settings import Settings

FRESH_S = 3_600.0
"""Seconds after which a certificate is measured again."""
RETRY_S = 60.0
"""Seconds after which an origin that presented none is asked again."""


@dataclass(frozen=True, slots=True)
class PresentedCertificate:
    """Validity period of the certificate of one origin; None, and the reason, if it presents none."""

    period: tuple[datetime, datetime] | None
    problem: str = ""


class PresentedCertificates:
    """Certificates of the https origins for which the platform's processes have no files."""

    def __init__(self, settings: Settings, probes: Probes) -> None:
        urls = (urlsplit(url) for url in (settings.portal_url, settings.sessions_origin))
        self._origins = {
            url.netloc: (url.hostname or "", url.port or 443)
            for url in urls
            if url.scheme == "https" and not settings.tls.enabled
        }
        self._probes = probes
        self._known: dict[str, tuple[PresentedCertificate, float]] = {}
        """Last result for each origin, and the time until which it is returned."""

    def __bool__(self) -> bool:
        """Return whether there are such origins."""
        return bool(self._origins)

    async def get(self) -> Mapping[str, PresentedCertificate]:
        """Return the certificates by host (and port, unless it is 443), at most an hour old."""
        now = asyncio.get_running_loop().time()
        due = [name for name in self._origins if now >= self._known.get(name, (None, now))[1]]
        for name, found in zip(
            due, await run_concurrently(self._read_certificate(name) for name in due), strict=True
        ):
            self._known[name] = found, now + (RETRY_S if found.period is None else FRESH_S)
        return {name: found for name, (found, _) in self._known.items()}

    def get_last_expiries(self) -> Mapping[str, datetime]:
        """Return the expiry of the certificates as last measured, without a connection."""
        return {name: found.period[1] for name, (found, _) in self._known.items() if found.period}

    async def _read_certificate(self, name: str) -> PresentedCertificate:
        try:
            return PresentedCertificate(
                await self._probes.get_certificate_validity(*self._origins[name])
            )
        except Unavailable as error:
            return PresentedCertificate(None, error.message)
