"""Base models for the arguments and answers of the broker's verbs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.models.base import Frozen, Strict

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f]+$", max_length=4_000)]


class Args(Strict):
    """Arguments of a verb. ``about`` is what the audit log records of them: account and job."""

    @property
    def about(self) -> tuple[str | None, str | None]:
        """The account that is acted for and the job, where there is one."""
        return None, None


class NoArgs(Args):
    """Arguments of verbs that need none."""


class EmptyResult(Frozen):
    """Empty answer of a verb that succeeded."""
