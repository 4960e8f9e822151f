"""Snapshot of what a job ran on: its folder's commit and changes, its packages, its node; and its
written files.

The agent gathers it on the node, as the user, whose programs can write anything: unknown fields are
ignored, and one invalid value invalidates the whole document.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job import JobSpec

MOST_BYTES = 640 << 10
"""Most bytes of a snapshot or a list of files as the agent sends it."""
MOST_DIFF = 256 << 10
MOST_PACKAGES = 5_000
MOST_FILES = 1_000

Path = Annotated[str, Field(max_length=4_096)]
Word = Annotated[str, Field(max_length=300)]
Count = Annotated[int, Field(ge=0, le=1 << 62)]


class _Part(Frozen):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class GitState(_Part):
    """The working copy that the job's folder lies in."""

    root: Path = Field(description="Its top folder.")
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")] | None = Field(
        None, description="What is checked out; null before the first commit."
    )
    branch: Word | None = Field(None, description="Null: no branch.")
    remote: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="Where it is fetched from, without user and password."
    )
    dirty: bool = Field(False, description="Whether tracked files differed from the commit.")
    diff: Annotated[str, Field(max_length=MOST_DIFF)] = Field(
        "", description="How, as a unified diff that `git apply` takes."
    )
    diff_bytes: Count = Field(0, description="How long the diff was before it was cut.")
    diff_cut: bool = Field(False, description="Whether the diff is only the beginning.")
    untracked: tuple[Path, ...] = Field(
        (), max_length=MOST_FILES, description="Files that git was not told of, by name."
    )
    untracked_cut: bool = Field(False, description="Whether there were more of them.")


class EnvironmentKind(StrEnum):
    """Kind of environment that holds the packages."""

    VENV = "venv"
    CONDA = "conda"
    SYSTEM = "system"
    IMAGE = "image"


class Packages(_Part):
    """The environment that the job's programs found, by its packages' own records."""

    kind: EnvironmentKind = Field(description="What it is.")
    path: Path | None = Field(None, description="Where it lies; null in an image.")
    python: Word | None = Field(None, description="Its Python's version.")
    packages: dict[Word, Word] = Field(
        default_factory=dict, max_length=MOST_PACKAGES, description="Name to version."
    )
    cut: bool = Field(False, description="Whether there were more.")


class HostState(_Part):
    """Host facts of the first node."""

    node: Word = Field(description="Its name.")
    system: Word | None = Field(None, description="Its operating system.")
    kernel: Word | None = Field(None, description="Its kernel's release.")
    cpu: Word | None = Field(None, description="Its processor.")
    gpu_driver: Word | None = Field(None, description="The version of its GPU driver.")


class Taken(_Part):
    """Snapshot as the agent sends it."""

    schema_: int = Field(1, alias="schema", ge=1, description="Of this document.")
    taken_at: UtcTime = Field(description="When, by the node's clock.")
    workdir: Path = Field(description="The folder that the job worked in.")
    git: GitState | None = Field(None, description="Null: the folder is in no git repository.")
    environment: Packages | None = Field(None, description="Null: no Python was found.")
    host: HostState | None = Field(None, description="The node.")
    notes: tuple[Word, ...] = Field(
        (), max_length=20, description="What could not be found out, as sentences."
    )


class Snapshot(Frozen):
    """Everything that is known of what a job ran on."""

    attempt: int = Field(description="Of the job: a retry takes a new one.")
    taken: Taken | None = Field(description="What its agent found; null: it has not told.")
    image: str = Field(description="`bare`: no image.")
    image_digest: str | None = Field(description="Fixed when the job was made.")
    datasets: tuple[DatasetUse, ...] = Field(description="The versions that it read.")
    modules: tuple[str, ...] = Field(description="The modules that were loaded for it.")
    spec: JobSpec = Field(description="The job file, resolved: what was run.")


class WrittenFile(_Part):
    """A file that was changed while the job ran."""

    path: Path = Field(description="Below the job's folder.")
    size_bytes: Count = Field(description="At the job's end.")
    modified_at: UtcTime = Field(description="By the file system's clock.")


class WrittenFiles(_Part):
    """The files of a job's folder that were changed while it ran: its own, and others' there."""

    schema_: int = Field(1, alias="schema", ge=1, description="Of this document.")
    folder: Path = Field(description="The folder that was looked through.")
    files: tuple[WrittenFile, ...] = Field((), max_length=MOST_FILES, description="Newest first.")
    cut: bool = Field(False, description="Whether there is more than was looked at.")
