"""Base models for the arguments and results of the broker's verbs (its operations)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.models.base import Frozen, Strict

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f]+$", max_length=4_000)]


class Args(Strict):
    """Base class of the arguments of a verb. The audit log stores only the values that ``audit_subject``
    returns, never the arguments themselves.
    """

    @property
    def audit_subject(self) -> tuple[str | None, str | None]:
        """Return the Unix account for which the broker acts, and the job; each is None if the verb
        does not concern one.
        """
        return None, None


class NoArgs(Args):
    """Arguments of verbs that need none."""


class EmptyResult(Frozen):
    """Empty result of a verb that succeeded."""
