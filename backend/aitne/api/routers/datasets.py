"""Routes of datasets, which jobs read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import FileResponse

from aitne.api.catalog_views import (
    DatasetChanges,
    DatasetList,
    DatasetVerification,
    ManifestSummary,
)
from aitne.api.dependencies import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.api.uploads import Upload
from aitne.core.models.base import ProjectName
from aitne.core.models.dataset import Dataset, DatasetName, DatasetVersion, ManifestDigest
from aitne.services.datasets.datasets import NewDataset

GZIP = "application/gzip"

router = APIRouter(prefix=V1, tags=["datasets"])
Name = Annotated[DatasetName, Path(description="The dataset's name.")]
Version = Annotated[DatasetVersion, Path(description="Its version.")]
Project = Annotated[ProjectName, Path(description="A project's name.")]
Digest = Annotated[ManifestDigest, Path(description="sha256 of the manifest's text.")]
_PACKED = {"schema": {"type": "string", "format": "binary"}}


@router.get("/datasets")
async def list_datasets(actor: Reader, platform: PlatformDep) -> DatasetList:
    """List all versions of the datasets that you may read, including retired ones; administrators
    see all."""
    return DatasetList(items=list(await platform.datasets.list(actor)))


@router.post("/datasets", status_code=201)
async def add_dataset(
    body: NewDataset, actor: Writer, platform: PlatformDep, response: Response
) -> Dataset:
    """Add a version of a dataset whose manifest was uploaded. The numbers of files and bytes are
    taken from the manifest. The problem ``manifest_missing`` means that the manifest must be
    uploaded first."""
    dataset = await platform.datasets.add(actor, body)
    response.headers["Location"] = f"{V1}/datasets/{dataset.name}/{dataset.version}"
    return dataset


@router.put(
    "/manifests/{sha256}",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {GZIP: _PACKED}}},
)
async def upload_manifest(
    sha256: Digest, actor: Writer, upload: Upload, platform: PlatformDep
) -> ManifestSummary:
    """Upload a manifest, compressed with gzip, before its dataset is added. It is read completely
    and kept for a day, or permanently once a dataset refers to it."""
    summary = await platform.datasets.receive_manifest(actor, sha256, upload)
    return ManifestSummary(**asdict(summary))


@router.get("/datasets/{name}")
async def list_dataset_versions(name: Name, actor: Reader, platform: PlatformDep) -> DatasetList:
    """List the versions of one dataset that you may read, newest first."""
    return DatasetList(items=list(await platform.datasets.versions(actor, name)))


@router.get("/datasets/{name}/{version}")
async def get_dataset(
    name: Name, version: Version, actor: Reader, platform: PlatformDep
) -> Dataset:
    """Return one version of a dataset that you may read."""
    return await platform.datasets.get(actor, name, version)


@router.patch("/datasets/{name}/{version}")
async def update_dataset(
    name: Name, version: Version, body: DatasetChanges, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Retire a version of your dataset, or offer it again."""
    return await platform.datasets.set_retired(actor, name, version, retired=body.retired)


@router.get(
    "/datasets/{name}/{version}/manifest",
    response_class=Response,
    responses={200: {"content": {GZIP: _PACKED}}},
)
async def get_dataset_manifest(
    name: Name, version: Version, actor: Reader, platform: PlatformDep
) -> Response:
    """Return the manifest of a dataset that you may read, compressed with gzip."""
    dataset, path = await platform.datasets.manifest(actor, name, version)
    headers = {"ETag": f'"{dataset.manifest}"'}
    return FileResponse(path, media_type=GZIP, headers=headers)


@router.put("/datasets/{name}/{version}/projects/{project}")
async def grant_dataset(
    name: Name, version: Version, project: Project, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Allow the members of one of your projects to read your dataset. Administrators may name any
    project."""
    return await platform.datasets.grant(actor, name, version, project)


@router.delete("/datasets/{name}/{version}/projects/{project}")
async def revoke_dataset(
    name: Name, version: Version, project: Project, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Withdraw a project's permission to read your dataset. Running jobs continue."""
    return await platform.datasets.revoke(actor, name, version, project)


@router.post("/datasets/{name}/{version}/verification")
async def note_dataset_verification(
    name: Name, version: Version, body: DatasetVerification, actor: Writer, platform: PlatformDep
) -> Dataset:
    """Record the result of a verification of a dataset that you may read."""
    return await platform.datasets.record_verification(
        actor, name, version, manifest=body.manifest, damaged_files=body.damaged_files
    )
