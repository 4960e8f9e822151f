"""Routes of images, which jobs and sessions run in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from aitne.api.catalog_views import ArtifactList, ImageChanges, ImageList, ImageVerification
from aitne.api.dependencies import Admin, PlatformDep, Reader
from aitne.api.routers import V1
from aitne.core.models.image import Image, ImageName, ImageVersion
from aitne.services.images.images import NewImage

router = APIRouter(prefix=V1, tags=["images"])
Name = Annotated[ImageName, Path(description="The image's name.")]
Version = Annotated[ImageVersion, Path(description="Its version.")]


@router.get("/images")
async def list_images(actor: Reader, platform: PlatformDep) -> ImageList:
    """List the images that you may use, without their packages; administrators see all."""
    return ImageList(items=list(await platform.images.list(actor)))


@router.post("/images", status_code=201)
async def register_image(
    body: NewImage, actor: Admin, platform: PlatformDep, response: Response
) -> Image:
    """Register an image; administrators only. Its files are read completely and must have the given
    digests. An existing version gets the additional artifacts; the same request again changes
    nothing."""
    image = await platform.images.register(actor, body)
    response.headers["Location"] = f"{V1}/images/{image.name}/{image.version}"
    return image


@router.get("/images/{name}/{version}")
async def get_image(name: Name, version: Version, actor: Reader, platform: PlatformDep) -> Image:
    """Return one image with its software bill of materials."""
    return await platform.images.get(actor, name, version)


@router.patch("/images/{name}/{version}")
async def update_image(
    name: Name, version: Version, body: ImageChanges, actor: Admin, platform: PlatformDep
) -> Image:
    """Retire an image, offer it again, or set the projects that may use it; administrators only."""
    return await platform.images.update(
        actor, name, version, state=body.state, projects=body.projects
    )


@router.post("/images/{name}/{version}/verification")
async def note_image_verification(
    name: Name, version: Version, body: ImageVerification, actor: Admin, platform: PlatformDep
) -> Image:
    """Record the result of a verification; administrators only. A damaged image is no longer
    offered."""
    return await platform.images.record_verification(actor, name, version, body.damage)


@router.delete("/images/{name}/{version}")
async def remove_image(
    name: Name, version: Version, actor: Admin, platform: PlatformDep
) -> ArtifactList:
    """Delete an image that is neither offered nor in use from the catalogue; administrators only.
    Its files are kept; the answer lists them."""
    return ArtifactList(items=list(await platform.images.remove(actor, name, version)))
