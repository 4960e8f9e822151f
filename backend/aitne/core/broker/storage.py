"""The broker's verbs for folders: facts about an account's areas and paths, and creation of missing
folders."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.broker.arguments import AbsolutePath, Args
from aitne.core.models.base import Frozen, ProjectName, UserName
from aitne.core.models.storage import Area, AreaFacts, PathFacts

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
    """Arguments of verbs that act for an account without a job."""

    account: UserName

    @property
    def about(self) -> tuple[str | None, str | None]:
        """The account, for the audit log; no job."""
        return self.account, None


class AreasArgs(AccountArgs):
    """Arguments of the verbs ``areas`` and ``make_areas``."""

    areas: list[WireArea] = Field(max_length=MAX_AREAS)


class PathsArgs(AccountArgs):
    """Arguments of the verb ``paths``."""

    paths: list[AbsolutePath] = Field(max_length=MAX_PATHS)


class AreasResult(Frozen):
    """Facts about each requested area."""

    areas: list[AreaFacts]


class PathsResult(Frozen):
    """Facts about each requested path."""

    paths: list[PathFacts]


class MakeAreasResult(Frozen):
    """Folders that could not be created, one sentence each."""

    problems: list[str]
