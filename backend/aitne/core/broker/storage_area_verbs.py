"""The broker's verbs for folders: they read the properties of an account's storage areas and paths,
and create missing folders.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.broker.verb_base_models import AbsolutePath, Args
from aitne.core.models.base import Frozen, ProjectName, UserName
from aitne.core.models.storage_area import Area, AreaFacts, PathFacts

MAX_AREAS = 500
MAX_PATHS = 1_000
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]


class WireArea(Area, extra="forbid"):
    """``Area`` as the broker receives it: every field is validated again."""

    name: _Name
    path: AbsolutePath
    adapter: _Name
    project: ProjectName | None = None
    mount: AbsolutePath | None = None


class AccountArgs(Args):
    """Arguments of verbs that act for a Unix account without a job."""

    account: UserName

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Unix account, and None because there is no job, for the audit log."""
        return self.account, None


class AreasArgs(AccountArgs):
    """Arguments of the verbs ``areas`` and ``make_areas``."""

    areas: list[WireArea] = Field(max_length=MAX_AREAS)


class PathsArgs(AccountArgs):
    """Arguments of the verb ``paths``."""

    paths: list[AbsolutePath] = Field(max_length=MAX_PATHS)


class AreasResult(Frozen):
    """Result of the verb ``areas``: properties of each requested area."""

    areas: list[AreaFacts]


class PathsResult(Frozen):
    """Result of the verb ``paths``: properties of each requested path."""

    paths: list[PathFacts]


class MakeAreasResult(Frozen):
    """Result of the verb ``make_areas``: one sentence for each folder that could not be created."""

    problems: list[str]
