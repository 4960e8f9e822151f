"""Container images in which programs run: entries of the catalogue, and the files in
``containers/``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from aitne.core.models.base import (
    Command,
    EnvName,
    EnvValue,
    Frozen,
    ProjectName,
    Strict,
    UserName,
    UtcTime,
)

BARE = "bare"
"""Image name which means that the job uses no image and runs directly on the node."""
IMAGE_NAME = r"^[a-z][a-z0-9]*(?:[._-][a-z0-9]+){0,9}$"
IMAGE_VERSION = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$"
IMAGE_REFERENCE = (
    r"^(?:[a-z][a-z0-9._-]{0,63}(?::[A-Za-z0-9][A-Za-z0-9_.+-]{0,63})?|/[^\x00-\x1f\x7f]{1,4000})$"
)
"""Pattern of an image reference: ``name``, ``name:version``, or the absolute path of the user's own
image.
"""
DIGEST = r"^sha256:[0-9a-f]{64}$"
CUDA_VERSION = r"^[0-9]{1,3}\.[0-9]{1,3}$"

ImageName = Annotated[str, Field(pattern=IMAGE_NAME, max_length=60)]
ImageVersion = Annotated[str, Field(pattern=IMAGE_VERSION)]
Digest = Annotated[str, Field(pattern=DIGEST)]
AppName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]


class ImageNeeds(Strict):
    """Requirements of an image on the node that runs it."""

    cuda: Annotated[str | None, Field(pattern=CUDA_VERSION)] = Field(
        None,
        description="CUDA release of the image: the node's driver must support it or a later one.",
    )


class ImageApp(Strict):
    """Program in the image that a session can start and show, by the kind of app that starts it."""

    kind: str = Field("jupyterhub", pattern=r"^[a-z][a-z0-9-]{0,39}$")
    python: str | None = Field(
        None,
        pattern=r"^/[^\x00-\x1f\x7f]{1,400}$",
        description="For kind jupyterhub: the interpreter that has JupyterLab and JupyterHub.",
    )

    @model_validator(mode="after")
    def _check_interpreter(self) -> Self:
        if self.kind == "jupyterhub" and self.python is None:
            raise ValueError("an app of kind jupyterhub needs `python`, the interpreter it runs in")
        return self


class ImageFile(Strict):
    """Content of the file ``containers/<name>/image.yaml``, which describes an image to build."""

    name: ImageName
    version: ImageVersion
    description: str = Field(min_length=1, max_length=500)
    base: ImageName | None = Field(None, description="Image in a sibling folder that it extends.")
    apps: dict[AppName, ImageApp] = Field(default_factory=dict, max_length=20)
    needs: ImageNeeds = ImageNeeds()
    env: dict[EnvName, EnvValue] = Field(default_factory=dict, max_length=100)
    debian: list[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]{1,100}$")]] = Field(
        default_factory=list, max_length=500, description="Debian packages."
    )
    python: list[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\[\],=<>!~+-]{0,199}$")]
    ] = Field(
        default_factory=list, max_length=500, description="PyPI packages, as requirements of pip."
    )
    python_prefix: str | None = Field(
        None,
        pattern=r"^/opt/[a-z0-9/_-]{1,100}$",
        description="Virtual environment for the Python packages.",
    )
    wheels: list[Annotated[str, Field(pattern=r"^[a-z][A-Za-z0-9._+-]{0,199}$")]] = Field(
        default_factory=list,
        max_length=20,
        description=(
            "Wheels of the machine that builds: aitne, its own training runtime, or a folder of "
            "~/.cache/aitne/wheels that holds one."
        ),
    )
    smoke: list[Command] = Field(
        default_factory=list,
        max_length=50,
        description="Commands that must succeed before the image is offered.",
    )


class ImageState(StrEnum):
    """State of an image: offered to new jobs, or retired."""

    OFFERED = "offered"
    RETIRED = "retired"
    """Kept for existing jobs; new jobs cannot use it."""


class Artifact(Frozen):
    """File or Docker image from which one runtime starts a container."""

    runtime: str
    """Name of the runtime, such as ``apptainer`` or ``docker``."""
    digest: Digest
    """Digest of the file, or the ID that Docker assigned to the image."""
    size_bytes: int = Field(ge=0)
    path: str | None = None
    """Absolute path of the file; None: the runtime's own store contains the image under the
    digest.
    """
    mtime_ns: int | None = None
    """Modification time of the file when it was verified, in nanoseconds since 1970. If it differs,
    the node verifies the content again.
    """


class Package(Frozen):
    """One package of an image's software bill of materials."""

    name: str
    version: str
    source: str
    """Package manager, such as ``debian`` or ``python``."""


class Image(Frozen):
    """One version of an image in the catalogue, added after its artifacts were verified."""

    name: ImageName
    version: ImageVersion
    description: str = ""
    apps: dict[str, ImageApp] = Field(default_factory=dict)
    """Apps that sessions may start in the image."""
    needs: ImageNeeds = ImageNeeds()
    """Requirements that a node must meet to run the image."""
    env: dict[str, str] = Field(default_factory=dict)
    artifacts: tuple[Artifact, ...]
    """Artifacts of the image: at least one, and at most one for each runtime."""
    packages: tuple[Package, ...] = ()
    """Packages of the image (its software bill); empty in lists of images."""
    state: ImageState = ImageState.OFFERED
    projects: tuple[ProjectName, ...] = ()
    """Projects whose members may use the image; empty: all users may."""
    created_at: UtcTime
    created_by: UserName
    verified_at: UtcTime | None = None
    damage: str | None = None
    """Problem that the last verification found, as a sentence; None if it found none. New jobs
    cannot use a damaged image.
    """

    @property
    def reference(self) -> str:
        """The reference ``name:version`` of the image."""
        return f"{self.name}:{self.version}"

    @property
    def is_offered(self) -> bool:
        """Return whether new jobs may use the image."""
        return self.state is ImageState.OFFERED and self.damage is None

    def find_artifact(self, runtime: str) -> Artifact | None:
        """Return the image's artifact for the runtime; None if there is none."""
        return next((artifact for artifact in self.artifacts if artifact.runtime == runtime), None)


class ImageUse(Frozen):
    """Image that a job uses. It is chosen when the job is created, so that later versions of the
    image do not change the job.
    """

    reference: str
    """``name:version``, or the path of an image of the user's own."""
    digest: Digest | None = None
    """Digest of the artifact; None for a user's own image, which is not verified."""
    path: str | None = None
    size_bytes: int | None = None
    mtime_ns: int | None = None
    """Last modification time of a user's own image, in nanoseconds since 1970."""
    env: dict[str, str] = Field(default_factory=dict)
    python: str | None = None
    """Path of the Python interpreter for the app that the job starts; None if there is none."""
    cuda: str | None = None
    """CUDA release that the node's driver must support."""
