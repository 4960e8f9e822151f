"""Routes of the user's storage areas: home, scratch, projects, and their quotas."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from aitne.api.dependencies import PlatformDep, Reader
from aitne.api.routers import V1
from aitne.core.models.base import ProjectName
from aitne.services.storage_areas import StorageView
from aitne.store.ended_job_folders import JobFolders

router = APIRouter(prefix=V1)
InProject = Annotated[
    ProjectName | None,
    Query(description="Project whose areas are shown beside your own; omitted: all your projects."),
]


@router.get("/storage", tags=["storage"])
async def get_storage(
    actor: Reader, platform: PlatformDep, project: InProject = None
) -> StorageView:
    """Return your storage areas with their space and quotas, measured at most about five seconds
    ago.

    A value that could not be determined is null, and `problems` describes problems with the areas.
    """
    return await platform.storage.create_and_inspect_areas(actor, project)


@router.get("/storage/jobs", tags=["storage"])
async def get_job_folders(actor: Reader, platform: PlatformDep) -> JobFolders:
    """Return the disk space of the job folders of your ended jobs."""
    return await platform.deletion.get_folder_sizes(actor)
