"""Images: what programs run in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from aitne.api.catalog_views import ArtifactList, ImageChanges, ImageList, ImageVerification
from aitne.api.deps import Admin, PlatformDep, Reader
from aitne.api.routers import V1
from aitne.core.models.image import Image, ImageName, ImageVersion
from aitne.services.images import NewImage

router = APIRouter(prefix=V1, tags=["images"])
Name = Annotated[ImageName, Path(description="The image's name.")]
Version = Annotated[ImageVersion, Path(description="Its version.")]


@router.get("/images")
async def list_images(actor: Reader, platform: PlatformDep) -> ImageList:
    """The images you may use, or all for administrators, without their packages."""
    return ImageList(items=list(await platform.images.list(actor)))


@router.post("/images", status_code=201)
async def register_image(
    body: NewImage, actor: Admin, platform: PlatformDep, response: Response
) -> Image:
    """Take an image in, for administrators: its files are read through and must have the digests
    that are given. A version that is there gets the further artifacts; the same again changes
    nothing."""
    image = await platform.images.register(actor, body)
    response.headers["Location"] = f"{V1}/images/{image.name}/{image.version}"
    return image


@router.get("/images/{name}/{version}")
async def get_image(name: Name, version: Version, actor: Reader, platform: PlatformDep) -> Image:
    """One image, with its software bill."""
    return await platform.images.get(actor, name, version)


@router.patch("/images/{name}/{version}")
async def update_image(
    name: Name, version: Version, body: ImageChanges, actor: Admin, platform: PlatformDep
) -> Image:
    """Retire an image or offer it again, or say which projects see it, for administrators."""
    return await platform.images.change(
        actor, name, version, state=body.state, projects=body.projects
    )


@router.post("/images/{name}/{version}/verification")
async def note_image_verification(
    name: Name, version: Version, body: ImageVerification, actor: Admin, platform: PlatformDep
) -> Image:
    """Keep what a verification found, for administrators. A damaged image is not offered."""
    return await platform.images.note_verification(actor, name, version, body.damage)


@router.delete("/images/{name}/{version}")
async def remove_image(
    name: Name, version: Version, actor: Admin, platform: PlatformDep
) -> ArtifactList:
    """Take an image that is not offered and not in use out of the catalogue, for administrators.
    Its files stay where they are; the answer says which they were."""
    return ArtifactList(items=list(await platform.images.remove(actor, name, version)))
