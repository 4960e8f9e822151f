"""Result of one check of the platform, its host or its cluster, as commands print it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen


class CheckState(StrEnum):
    """State that a check found."""

    OK = "ok"
    WARNING = "warning"
    """It works, but needs the attention of an administrator."""
    FAILED = "failed"
    """It does not work."""
    UNKNOWN = "unknown"
    """The state could not be determined."""
    SKIPPED = "skipped"
    """It does not apply here, or nothing was checked; the message has the reason."""


class CheckResult(Frozen):
    """Result of one check."""

    name: str = Field(description="Name of the check.", examples=["secrets"])
    state: CheckState = Field(description="State that the check found.")
    message: str = Field(description="What was found, as a sentence.")
    remedy: str | None = Field(None, description="Recommended action; null: none.")
