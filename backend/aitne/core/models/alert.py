"""Alerts of the monitoring, as Alertmanager sends them, and as the platform stores them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from aitne.core.models.base import Frozen, UtcTime

MOST_ALERTS = 500
"""Maximum number of alerts in one message."""
_Name = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$")]
_Value = Annotated[str, Field(max_length=4_000)]
_Words = Annotated[dict[_Name, _Value], Field(max_length=64)]


class AlertStatus(StrEnum):
    """Status of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


class AlertmanagerAlert(Frozen):
    """One alert in a message of Alertmanager. Fields of newer releases are ignored."""

    status: AlertStatus = Field(description="`firing`, or `resolved` once its cause is gone.")
    labels: _Words = Field(description="Labels; `alertname` and `severity` are used.")
    annotations: _Words = Field(
        description="Texts; `summary`, `description` and `runbook_url` are used."
    )
    starts_at: UtcTime = Field(alias="startsAt", description="Time at which it began to fire.")
    fingerprint: str = Field(
        pattern=r"^[0-9a-f]{1,64}$",
        description="Identity of the alert: the same while its labels are the same.",
        examples=["c2a8f1b3d4e5f607"],
    )


class AlertmanagerMessage(Frozen):
    """Message of Alertmanager's webhook, version 4. Fields of newer releases are ignored."""

    version: Literal["4"] = Field(description="Version of the format.")
    group_key: str = Field(
        alias="groupKey", max_length=10_000, description="Identity of the group of alerts."
    )
    status: AlertStatus = Field(description="`resolved` once all alerts of the group are.")
    alerts: tuple[AlertmanagerAlert, ...] = Field(
        max_length=MOST_ALERTS, description="Alerts of the group."
    )


class PlatformAlert(Frozen):
    """Alert as it was last received."""

    fingerprint: str
    status: AlertStatus
    name: str
    severity: str
    summary: str
    description: str
    runbook_url: str | None
    starts_at: UtcTime
    """Time at which it began to fire, by Prometheus's clock."""
    changed_at: UtcTime
    """Time at which the platform learned of its present status."""
    seen_at: UtcTime
    """Time of the last message that contained it."""
