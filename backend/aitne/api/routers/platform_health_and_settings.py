"""Routes of the platform's health and settings; administrators only."""

from __future__ import annotations

from fastapi import APIRouter

from aitne.api.admin_views import SettingList
from aitne.api.dependencies import Admin, PlatformDep
from aitne.api.routers import V1
from aitne.core.models.health import Health
from aitne.local_system.settings_report import describe_settings

router = APIRouter(prefix=f"{V1}/admin", tags=["admin"])


@router.get("/health")
async def get_health(actor: Admin, platform: PlatformDep) -> Health:
    """Return the state of every part of the platform, with the time of its last change and
    advice."""
    return await platform.health.report(actor)


@router.get("/settings")
async def list_settings(actor: Admin, platform: PlatformDep) -> SettingList:
    """List every setting with its value and the source of it. Secrets are masked."""
    return SettingList(items=describe_settings(platform.settings))
