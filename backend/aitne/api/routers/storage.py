"""The folders of whoever asks: home, scratch, projects, and their quotas."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from aitne.api.deps import PlatformDep, Reader
from aitne.api.routers import V1
from aitne.core.models.base import ProjectName
from aitne.services.storage import StorageView

router = APIRouter(prefix=V1)
InProject = Annotated[
    ProjectName | None,
    Query(description="Beside your own folders those of this project; omitted: of all of yours."),
]


@router.get("/storage", tags=["storage"])
async def get_storage(
    actor: Reader, platform: PlatformDep, project: InProject = None
) -> StorageView:
    """Your folders with their space and quotas, as they were found within the last seconds.

    What could not be found out is null, and `problems` says what you should know.
    """
    return await platform.storage.mine(actor, project)
