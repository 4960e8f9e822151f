"""Source code of a job: a tree (working tree that a user uploads) or a git repository that is
cloned.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from aitne.core.models.base import Frozen, Strict

TreeDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,254}")
_HOST = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
_SCP = re.compile(rf"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,63}}@)?{_HOST}:(?!/)[!-~]+")
"""Pattern of ``git@host:path``, the short form of an ssh URL."""
_SCHEMES = ("https", "ssh", "file")


def _check_url(value: str) -> str:
    if "://" not in value and _SCP.fullmatch(value):
        return value
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError(
            "write an address that begins with https://, ssh:// or file:///, or git@host:path"
        )
    if parts.password is not None or (parts.username is not None and parts.scheme != "ssh"):
        raise ValueError(
            "remove the user name and password: the job file is stored, and other members of the "
            "project can read it"
        )
    if parts.query or parts.fragment:
        raise ValueError("remove the part after ? or #")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise ValueError("write an absolute path on the cluster: file:///path")
    elif not re.fullmatch(_HOST, parts.hostname or "") or port == 0:
        raise ValueError("the address names no host")
    elif parts.username is not None and not re.fullmatch(
        r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", parts.username
    ):
        raise ValueError("the user name is invalid")
    return value


def _check_ref(value: str) -> str:
    if (
        not _REF.fullmatch(value)
        or ".." in value
        or "@{" in value
        or value.endswith(("/", ".lock"))
    ):
        raise ValueError("write the name of a branch or tag, or a complete commit hash")
    return value


def _check_subdir(value: str) -> str:
    parts = value.split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError("write a folder below the repository, without . and ..")
    return value


class RepoOptions(Strict):
    """Content of ``repo`` in a job file: a git repository that is cloned before the job starts."""

    url: Annotated[
        str, Field(max_length=2_000, pattern=r"^[!-~]+$"), AfterValidator(_check_url)
    ] = Field(
        description="Address of the repository, as the cluster reaches it: https://, ssh:// or "
        "file:///, or git@host:path; without a password.",
        examples=["https://github.com/pytorch/examples"],
    )
    ref: Annotated[str, Field(max_length=255), AfterValidator(_check_ref)] = Field(
        "HEAD",
        description="Branch, tag or complete commit hash. Omitted: the repository's default branch.",
        examples=["main"],
    )
    subdir: Annotated[str, Field(max_length=1_000), AfterValidator(_check_subdir)] | None = Field(
        None, description="Folder of the repository in which the job runs. Omitted: its top."
    )


class TreeUse(Frozen):
    """Tree (uploaded working tree) of which the job runs in a copy."""

    digest: TreeDigest = Field(description="sha256 that identifies the tree.")
    files: int = Field(ge=0, description="Number of files and links.")
    size_bytes: int = Field(ge=0, description="Size of all files in bytes.")
    commit: str | None = Field(None, description="Git commit that was checked out; null: unknown.")
    dirty: bool | None = Field(
        None, description="Whether there were uncommitted changes; null: unknown."
    )


class TreeStatus(TreeUse):
    """Tree of which the platform has the list of files, and the file contents that are still
    missing.
    """

    missing: tuple[TreeDigest, ...] = Field(
        description="sha256 of the contents to be uploaded; empty: the tree is complete."
    )


class TreeLimits(Frozen):
    """Limits on the trees that users upload."""

    max_files: int = Field(description="Maximum number of files and links of a tree.")
    max_bytes: int = Field(description="Maximum size of a tree in bytes.")
    quota_bytes: int = Field(description="Bytes that all trees of a user may have.")
