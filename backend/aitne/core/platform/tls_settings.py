"""Settings of TLS, a section of ``core.settings.Settings``."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from aitne.core.models.base import Strict


class TlsSettings(Strict):
    """HTTPS for the portal, for sessions, and between this machine and the nodes."""

    enabled: bool = Field(
        False,
        description="Whether the portal, the sessions' origin and each session listen with TLS alone.",
    )
    certificate: Path | None = Field(
        None,
        description="The portal's certificate with its chain (PEM), used for the sessions' origin too "
        "unless that has its own; unset: issued by the platform's own CA.",
    )
    key: Path | None = Field(None, description="The private key of `certificate` (PEM).")
    sessions_certificate: Path | None = Field(
        None, description="The certificate of the sessions' origin with its chain (PEM)."
    )
    sessions_key: Path | None = Field(
        None, description="The private key of `sessions_certificate` (PEM)."
    )

    @model_validator(mode="after")
    def _in_pairs(self) -> Self:
        for certificate, key, prefix in (
            (self.certificate, self.key, ""),
            (self.sessions_certificate, self.sessions_key, "sessions_"),
        ):
            if (certificate is None) != (key is None):
                raise ValueError(f"tls.{prefix}certificate and tls.{prefix}key belong together")
        if self.sessions_certificate is not None and self.certificate is None:
            raise ValueError("tls.sessions_certificate needs tls.certificate")
        if self.certificate is not None and not self.enabled:
            raise ValueError("tls.certificate is used with tls.enabled = true only")
        return self
