"""What the arguments and answers of all the broker's verbs are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aitne.core.models.base import Frozen, Strict

AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00-\x1f\x7f]+$", max_length=4_000)]


class Args(Strict):
    """The arguments of a verb. ``about`` is what the audit log says of it: account and job."""

    @property
    def about(self) -> tuple[str | None, str | None]:
        """The account that is acted for and the job, where there is one."""
        return None, None


class NoArgs(Args):
    """Of verbs that need none."""


class Done(Frozen):
    """It was done; there is nothing to say."""
