"""Renewal of certificates that the platform's own CA issued, and reload of the portal's
certificate, while the portal runs."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.settings import Settings
from aitne.services.platform.certificate_authorities import (
    CertificateFiles,
    portal_files,
    renew_issued,
)

log = logging.getLogger(__name__)

EVERY_S = 60.0


class PortalCertificate:
    """TLS certificate and key of the portal, reloaded when the files change. Open connections keep
    the certificate with which they began."""

    def __init__(self, settings: Settings) -> None:
        """Load certificate and key. Raises ``SetupError`` if they cannot be used."""
        self._settings = settings
        self._files = portal_files(settings)
        self._loaded = _get_modification_times(self._files)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_alpn_protocols(["http/1.1"])
        try:
            _load_certificate(self.context, self._files)
        except OSError as error:
            raise SetupError(
                f"The portal cannot use {self._files.certificate} and {self._files.key}: {error}. "
                "`aitne up` checks them."
            ) from error

    async def keep_renewed(self, refresh_now: asyncio.Event) -> None:
        """Call ``refresh`` every minute, and at once when the event ``refresh_now`` is set, until
        cancelled."""
        while True:
            await self.refresh()
            try:
                async with asyncio.timeout(EVERY_S):
                    await refresh_now.wait()
            except TimeoutError:
                continue
            refresh_now.clear()

    async def refresh(self) -> None:
        """Renew those certificates of the platform's CA that expire soon, and reload the portal's
        files if they have changed. A failure is logged, and the next call tries again."""
        try:
            await asyncio.to_thread(renew_issued, self._settings)
        except (SetupError, OSError) as error:
            log.error("The platform's certificates cannot be renewed: %s", error)
        try:
            stamp = _get_modification_times(self._files)
            if stamp == self._loaded:
                return
            # Key and certificate are replaced one after the other: a pair that does not match must
            # not get into the context that is in use.
            _load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._files)
            _load_certificate(self.context, self._files)
        except OSError as error:
            log.warning("%s is not used yet: %s", self._files.certificate, error)
            return
        self._loaded = stamp
        log.info("New connections use the changed certificate %s", self._files.certificate)


def _load_certificate(context: ssl.SSLContext, files: CertificateFiles) -> None:
    context.load_cert_chain(files.certificate, files.key)


def _get_modification_times(files: CertificateFiles) -> tuple[int, ...]:
    """Return the modification times of both files in nanoseconds, to detect a replacement; 0 for a
    missing file."""
    return tuple(map(_get_modification_time, (files.certificate, files.key)))


def _get_modification_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
