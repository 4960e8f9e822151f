"""Datasets: what jobs read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from aitne.api.catalog_views import (
    DatasetChanges,
    DatasetList,
    DatasetVerification,
    ManifestSummary,
)
from aitne.api.deps import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.core.models.base import ProjectName
from aitne.core.models.dataset import Dataset, DatasetName, DatasetVersion, ManifestDigest
from aitne.services.datasets import NewDataset

GZIP = "application/gzip"
SILENCE_S = 60.0
"""An upload that sends nothing for so long is given up: it keeps others from theirs."""

router = APIRouter(prefix=V1, tags=["datasets"])
Name = Annotated[DatasetName, Path(description="The dataset's name.")]
Version = Annotated[DatasetVersion, Path(description="Its version.")]
Project = Annotated[ProjectName, Path(description="A project's name.")]
Digest = Annotated[ManifestDigest, Path(description="sha256 of the manifest's text.")]
_PACKED = {"schema": {"type": "string", "format": "binary"}}


@router.get("/datasets")
async def list_datasets(actor: Reader, platform: PlatformDep) -> DatasetList:
    """The datasets you may read, or all for administrators; every version, the retired ones too."""
    return DatasetList(items=list(await platform.datasets.list(actor)))


@router.post("/datasets", status_code=201)
async def add_dataset(
    body: NewDataset, actor: Writer, platform: PlatformDep, response: Response
) -> Dataset:
    """Add a version of a dataset, whose manifest was uploaded. How many files and bytes it has is
    read there. The problem ``manifest_missing`` says that the upload comes first."""
    dataset = await platform.datasets.add(actor, body)
    response.headers["Location"] = f"{V1}/datasets/{dataset.name}/{dataset.version}"
    return dataset


@router.put(
    "/manifests/{sha256}",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {GZIP: _PACKED}}},
)
async def upload_manifest(
    sha256: Digest, request: Request, actor: Writer, platform: PlatformDep
) -> ManifestSummary:
    """Upload a manifest, compressed with gzip, before the dataset that has it. It is read to its
    end and kept for a day, or for good once a dataset names it."""
    try:
        found = await platform.datasets.receive_manifest(actor, sha256, _body(request))
    except ClientDisconnect:
        raise HTTPException(400, "The upload broke off; nothing was kept.") from None
    return ManifestSummary(**found._asdict())


async def _body(request: Request) -> AsyncIterator[bytes]:
    chunks = request.stream()
    while True:
        try:
            async with asyncio.timeout(SILENCE_S):
                chunk = await anext(chunks, None)
        except TimeoutError:
            raise HTTPException(
                408, f"Nothing came for {SILENCE_S:g} seconds, so nothing was kept. Try again."
            ) from None
        if chunk is None:
            return
        yield chunk


@router.get("/datasets/{name}")
async def list_dataset_versions(name: Name, actor: Reader, platform: PlatformDep) -> DatasetList:
    """The versions of one dataset that you may read, newest first."""
    return DatasetList(items=list(await platform.datasets.versions(actor, name)))


@router.get("/datasets/{name}/{version}")
async def get_dataset(
    name: Name, version: Version, actor: Reader, platform: PlatformDep
) -> Dataset:
    """One version of a dataset that you may read."""
    return await platform.datasets.get(actor, name, version)


@router.patch("/datasets/{name}/{version}")
async def update_dataset(
    name: Name, version: Version, body: DatasetChanges, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Retire a version of your dataset, or offer it again."""
    return await platform.datasets.retire(actor, name, version, retired=body.retired)


@router.get(
    "/datasets/{name}/{version}/manifest",
    response_class=Response,
    responses={200: {"content": {GZIP: _PACKED}}},
)
async def get_dataset_manifest(
    name: Name, version: Version, actor: Reader, platform: PlatformDep
) -> Response:
    """The manifest of a dataset that you may read, compressed with gzip."""
    dataset, path = await platform.datasets.manifest(actor, name, version)
    headers = {"ETag": f'"{dataset.manifest}"'}
    return FileResponse(path, media_type=GZIP, headers=headers)


@router.put("/datasets/{name}/{version}/projects/{project}")
async def grant_dataset(
    name: Name, version: Version, project: Project, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Let the members of a project of yours read your dataset. Administrators may name any."""
    return await platform.datasets.grant(actor, name, version, project)


@router.delete("/datasets/{name}/{version}/projects/{project}")
async def revoke_dataset(
    name: Name, version: Version, project: Project, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Take that back. Jobs that run go on."""
    return await platform.datasets.revoke(actor, name, version, project)


@router.post("/datasets/{name}/{version}/verification")
async def note_dataset_verification(
    name: Name, version: Version, body: DatasetVerification, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Keep what a verification of a dataset that you may read has found."""
    return await platform.datasets.note_verification(
        actor, name, version, manifest=body.manifest, damaged_files=body.damaged_files
    )
