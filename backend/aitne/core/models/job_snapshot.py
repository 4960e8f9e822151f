"""Snapshot of the environment of a job (commit and changes of its folder, packages, node), and the
list of files that it has written.

The agent collects it on the node under the account of the user, so its content is not trusted:
unknown fields are ignored, and one invalid value invalidates the whole document.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from aitne.core.models.base import Frozen, UtcTime
from aitne.core.models.dataset import DatasetUse
from aitne.core.models.job import JobSpec

MOST_BYTES = 640 << 10
"""Maximum number of bytes of a snapshot or list of files that an agent sends."""
MOST_DIFF = 256 << 10
MOST_PACKAGES = 5_000
MOST_FILES = 1_000

Path = Annotated[str, Field(max_length=4_096)]
Word = Annotated[str, Field(max_length=300)]
Count = Annotated[int, Field(ge=0, le=1 << 62)]


class _Part(Frozen):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class GitState(_Part):
    """State of the git working copy that contains the job's folder: commit, branch and changes."""

    root: Path = Field(description="Top folder of the working copy.")
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")] | None = Field(
        None, description="Commit that is checked out; null before the first commit."
    )
    branch: Word | None = Field(None, description="Branch that is checked out; null: none.")
    remote: Annotated[str, Field(max_length=2_000)] | None = Field(
        None, description="URL of the remote, without user and password."
    )
    dirty: bool = Field(False, description="Whether tracked files differed from the commit.")
    diff: Annotated[str, Field(max_length=MOST_DIFF)] = Field(
        "", description="Differences, as a unified diff for `git apply`."
    )
    diff_bytes: Count = Field(0, description="Length of the diff before truncation.")
    diff_cut: bool = Field(False, description="Whether the diff is truncated.")
    untracked: tuple[Path, ...] = Field(
        (), max_length=MOST_FILES, description="Untracked files, by name."
    )
    untracked_cut: bool = Field(False, description="Whether the list is truncated.")


class EnvironmentKind(StrEnum):
    """Kind of environment that contains the Python packages of a job."""

    VENV = "venv"
    CONDA = "conda"
    SYSTEM = "system"
    IMAGE = "image"


class Packages(_Part):
    """Python packages that the job's programs can import, according to the metadata of the
    packages.
    """

    kind: EnvironmentKind = Field(description="Kind of environment.")
    path: Path | None = Field(None, description="Path of the environment; null in an image.")
    python: Word | None = Field(None, description="Version of Python.")
    packages: dict[Word, Word] = Field(
        default_factory=dict, max_length=MOST_PACKAGES, description="Versions by package name."
    )
    cut: bool = Field(False, description="Whether the list is truncated.")


class HostState(_Part):
    """Description of the first node of the job: system, kernel, CPU and GPU driver."""

    node: Word = Field(description="Name of the node.")
    system: Word | None = Field(None, description="Operating system.")
    kernel: Word | None = Field(None, description="Release of the kernel.")
    cpu: Word | None = Field(None, description="Model of the processor.")
    gpu_driver: Word | None = Field(None, description="Version of the GPU driver.")


class Taken(_Part):
    """Part of a job's snapshot that its agent sends."""

    schema_: int = Field(1, alias="schema", ge=1, description="Version of this schema.")
    taken_at: UtcTime = Field(description="Time of the snapshot, by the node's clock.")
    workdir: Path = Field(description="Working directory of the job.")
    git: GitState | None = Field(
        None, description="Working copy; null: the folder is in no git repository."
    )
    environment: Packages | None = Field(None, description="Packages; null: no Python was found.")
    host: HostState | None = Field(None, description="The node.")
    notes: tuple[Word, ...] = Field(
        (), max_length=20, description="Facts that could not be determined, as sentences."
    )


class Snapshot(Frozen):
    """Snapshot of a job's environment: image, datasets, modules, job file, and the part that its
    agent sent.
    """

    attempt: int = Field(description="Attempt of the job; a retry takes a new snapshot.")
    taken: Taken | None = Field(description="Facts that its agent reported; null: none yet.")
    image: str = Field(description="Image of the job; `bare`: none.")
    image_digest: str | None = Field(
        description="Digest of the image, fixed when the job was created."
    )
    datasets: tuple[DatasetUse, ...] = Field(description="Dataset versions that it read.")
    modules: tuple[str, ...] = Field(description="The modules that were loaded for it.")
    spec: JobSpec = Field(description="The resolved job file.")


class WrittenFile(_Part):
    """File that was changed while the job ran."""

    path: Path = Field(description="Path below the job's folder.")
    size_bytes: Count = Field(description="Size at the end of the job.")
    modified_at: UtcTime = Field(description="Time of the last change, by the file system's clock.")


class WrittenFiles(_Part):
    """Files in a job's folder that were changed while the job ran, by the job itself or by other
    processes.
    """

    schema_: int = Field(1, alias="schema", ge=1, description="Version of this schema.")
    folder: Path = Field(description="Folder that was searched.")
    files: tuple[WrittenFile, ...] = Field(
        (), max_length=MOST_FILES, description="Files, newest first."
    )
    cut: bool = Field(False, description="Whether there are further files.")
