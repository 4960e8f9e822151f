"""Route for Alertmanager's messages."""

from __future__ import annotations

import hmac

from fastapi import APIRouter, Depends, Request

from aitne.api.dependencies import MetricsDep, PlatformDep, find_bearer_token
from aitne.api.routers import V1
from aitne.core.errors import NotAuthenticated
from aitne.core.models.alert import AlertmanagerMessage
from aitne.services.platform.shared_secrets import read_secret

ALERTS_TOKEN = "alerts_token"  # noqa: S105 - the name of a file
router = APIRouter(prefix=V1, tags=["admin"])


async def check_alertmanager(request: Request, platform: PlatformDep, metrics: MetricsDep) -> None:
    """Check that the request has the platform's token for alerts. Raises ``NotAuthenticated``."""
    token = find_bearer_token(request.headers) or ""
    expected = read_secret(platform.settings, ALERTS_TOKEN)
    if not hmac.compare_digest(token.encode(), expected.encode()):
        error = NotAuthenticated(
            "Alertmanager sends the content of secrets/alerts_token as Authorization: Bearer."
        )
        metrics.count_rejected_credential("token", error)
        raise error


@router.post("/alerts", status_code=204, dependencies=[Depends(check_alertmanager)])
async def receive_alerts(body: AlertmanagerMessage, platform: PlatformDep) -> None:
    """Receive a message of Alertmanager's webhook. Its alerts become notifications of
    administrators, and a resolved alert closes them.

    The credential is the content of `secrets/alerts_token` in the platform's data directory. A
    message that is sent again changes nothing.
    """
    await platform.alerts.receive(body)
