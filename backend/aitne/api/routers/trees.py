"""Routes of working trees: files that a user uploads, and of which jobs get a copy to run in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from aitne.api.dependencies import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.api.uploads import Upload
from aitne.core.models.job_source import TreeDigest, TreeLimits, TreeStatus

BINARY = "application/octet-stream"

router = APIRouter(prefix=V1, tags=["trees"])
Digest = Annotated[TreeDigest, Path(description="sha256 of the list of the tree's files.")]
_BODY = {
    "requestBody": {
        "required": True,
        "content": {BINARY: {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/trees:limits")
async def get_tree_limits(actor: Reader, platform: PlatformDep) -> TreeLimits:
    """Return the limits on uploaded working trees."""
    return platform.trees.limits()


@router.put("/trees/{sha256}", openapi_extra=_BODY)
async def put_tree(
    sha256: Digest, actor: Writer, upload: Upload, platform: PlatformDep
) -> TreeStatus:
    """Store the list of a working tree's files (JSON as `core/tree_document.py` describes it), and return
    the contents that are missing. After uploading those, send the list again; once nothing is
    missing, a job can name the tree in `tree`."""
    return await platform.trees.receive_file_list(actor, sha256, upload)


@router.put("/trees/{sha256}/blobs", status_code=204, openapi_extra=_BODY)
async def put_tree_blobs(
    sha256: Digest, actor: Writer, upload: Upload, platform: PlatformDep
) -> None:
    """Store contents of a working tree's files, each after a line with its sha256, a space and its
    size in bytes. Contents before an invalid one are kept."""
    await platform.trees.receive_blobs(actor, sha256, upload)
