"""Settings of containers and of storage, which are sections of ``core.settings.Settings``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from aitne.core.models.base import Strict
from aitne.core.models.storage_area import AreaKind

Pattern = Annotated[str, Field(pattern=r"^[/{][^\x00-\x1f\x7f]{0,400}$")]
"""Path that may contain the placeholders ``{home}``, ``{user}``, ``{uid}`` and ``{project}``."""
PLACEHOLDER = re.compile(r"\{(home|user|uid|project)\}")
HOME = "home"
"""Name of the storage area that every user has."""
RESERVED = frozenset({"jobs", "datasets"})
"""Names below ``/api/v1/files`` that are no storage areas of the settings."""


class ContainerSettings(Strict):
    """Images and the programs that run them."""

    images_dir: Path | None = Field(
        None,
        description="Folder of the images, readable on every node; unset: beside the software.",
    )
    runtime: str | None = Field(
        None,
        description="The runtime that is used when an image has several and the job names none.",
    )
    own_images: bool = Field(
        False, description="Whether users may run image files of their own, by path."
    )
    apptainer: str = Field("apptainer", description="Program of Apptainer on the nodes.")
    docker_url: str | None = Field(
        None, description="Docker's or Podman's API; unset: `unix:///var/run/docker.sock`."
    )
    docker_cgroup_parent: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9/_.-]{1,200}$",
        description="On Slurm: the cgroup of Docker's containers; unset: no Docker there.",
    )
    tmp_dir: Path = Field(
        Path("/tmp"),  # noqa: S108 - a default that a site may change
        description="Node-local disk for temporary files and the runtimes' caches.",
    )


class AreaSettings(Strict):
    """A kind of folder that users or projects have."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9-]{0,39}$", description="Name of the area, such as `scratch`."
    )
    path: Pattern = Field(
        description="Path of a folder, such as `/scratch/{user}` or `/projects/{project}`."
    )
    kind: AreaKind = Field(AreaKind.USER, description="Owner of each folder: `user` or `project`.")
    storage: str = Field("posix", description="The storage adapter: `posix` or `beegfs`.")
    mount: Path | None = Field(
        None,
        description="The mount point of the area, such as `/scratch`: while no file system is "
        "mounted there the area is missing and nothing is created; unset: as in `/etc/fstab`.",
    )
    make: bool = Field(True, description="Whether the platform creates a folder that is missing.")

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        placeholders = set(PLACEHOLDER.findall(self.path))
        if strange := re.findall(r"[{}]", PLACEHOLDER.sub("", self.path)):
            raise ValueError(
                f"{self.path} has a {strange[0]} that belongs to none of {{home}}, {{user}}, {{uid}} "
                "and {project}"
            )
        if self.kind is AreaKind.PROJECT and placeholders != {"project"}:
            raise ValueError(
                f"{self.path} is an area of projects: it must contain {{project}} and no other "
                "placeholder"
            )
        if self.kind is AreaKind.USER and "project" in placeholders:
            raise ValueError(f'{self.path} has {{project}} in it, which needs kind = "project"')
        if self.kind is AreaKind.USER and not placeholders and self.make:
            raise ValueError(
                f"{self.path} is the same for all users: put {{user}} into it, or set make = false"
            )
        if self.name == HOME:
            raise ValueError(f"every user has a {HOME} already; choose another name")
        if self.name in RESERVED:
            raise ValueError(
                f"{self.name} names files of the platform in addresses; choose another name"
            )
        return self


class TreeSettings(Strict):
    """Trees that users upload for their jobs (`aitne apply --sync`)."""

    max_bytes: Annotated[int, Field(strict=True, ge=1 << 10, le=1 << 40)] = Field(
        200 << 20, description="Maximum size of one tree in bytes."
    )
    quota_bytes: Annotated[int, Field(strict=True, ge=1 << 10, le=1 << 50)] = Field(
        2 << 30,
        description="Bytes that all trees of a user may have; each file counts in blocks of 4 KiB.",
    )
    keep_days: Annotated[float, Field(gt=0, le=3_650)] = Field(
        30,
        description="Days after its last use until a tree is removed that no waiting or running job "
        "needs.",
    )


class StorageSettings(Strict):
    """File systems that users see."""

    home: str = Field("posix", description="The storage adapter of home folders.")
    areas: list[AreaSettings] = Field(
        default_factory=list, max_length=20, description="Further folders: scratch, projects."
    )
    datasets: list[Path] = Field(
        default_factory=list,
        description="Folders that may contain datasets, beside homes and areas.",
    )
    caches: Pattern | None = Field(
        None,
        description="Folder for jobs' caches (pip, torch, Hugging Face) instead of home, such "
        "as `/scratch/{user}/.cache`.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [area.name for area in self.areas]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two areas are called {twice[0]}")
        return self

    def with_scratch(self, pattern: str | None) -> StorageSettings:
        """Return a copy of the settings with a scratch area at the path ``pattern``. The settings
        are unchanged if they define areas already, or if ``pattern`` is None.
        """
        if pattern is None or self.areas:
            return self
        return self.model_copy(update={"areas": [AreaSettings(name="scratch", path=pattern)]})
