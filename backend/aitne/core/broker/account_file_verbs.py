"""The broker's verbs that read files of users under their accounts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Base64Bytes, Field

from aitne.core.broker.verb_base_models import AbsolutePath, Args
from aitne.core.models.base import Frozen, UserName
from aitne.core.path_encoding import EncodedPath
from aitne.core.ports.account_files import MAX_PAGE, FileRoot


class WireFileRoot(FileRoot, extra="forbid"):
    """``FileRoot`` as the broker receives it: every field is validated again."""

    account: UserName
    folder: AbsolutePath


class FileArgs(Args):
    """Arguments of the verb ``look_at_file``, and base class of those of the other verbs."""

    root: WireFileRoot
    path: EncodedPath

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Unix account, and None because there is no job, for the audit log."""
        return self.root.account, None


class ListFolderArgs(FileArgs):
    """Arguments of the verb ``list_folder``."""

    after: EncodedPath = ""
    limit: int = Field(ge=1, le=MAX_PAGE)


class ReadPartArgs(FileArgs):
    """Arguments of the verb ``read_part``."""

    etag: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    offset: int = Field(ge=0, le=1 << 62)
    limit: int = Field(ge=0)
    """Maximum number of bytes to return; values above ``MAX_READ_BYTES`` are reduced to that."""


class ReadPartResult(Frozen):
    """Result of the verb ``read_part``."""

    data: Base64Bytes
