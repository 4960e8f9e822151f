"""The audit log: each change with its actor, object, origin and outcome. Entries never change."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, field_serializer

from aitne.core.audit_chain import FIRST, digest
from aitne.core.models.base import Frozen, UtcTime


class Outcome(StrEnum):
    """Outcome of an audited action."""

    ALLOWED = "allowed"
    """The action was done."""
    DENIED = "denied"
    """The user may not do this, or did not prove their identity."""
    FAILED = "failed"
    """The action failed: the request was wrong, or a component did not work."""


class AuditDraft(Frozen):
    """Content of an entry before it has its place in the chain."""

    time: UtcTime = Field(description="When it happened.")
    actor: str = Field(
        description="Whose rights were used, or the name that was given to log in.",
        examples=["ada"],
    )
    impersonator: str | None = Field(
        None, description="The administrator who acted as that person; null: nobody else did."
    )
    action: str = Field(
        description="The operation of the API, such as drain_node, or login.",
        examples=["drain_node"],
    )
    object: str | None = Field(
        None,
        description="What it was done to: the parts of its address, with slashes between.",
        examples=["gpu03", "vision/ada"],
    )
    outcome: Outcome = Field(description="Whether it was done.")
    address: str | None = Field(
        None, description="The network address it came from.", examples=["192.0.2.17"]
    )
    details: dict[str, Any] = Field(
        default_factory=dict,
        description="What else there is to say: the status of the answer, a reason, what changed.",
        examples=[{"status": 202, "reason": "new fans"}],
    )

    @field_serializer("time", when_used="json")
    def _written(self, value: datetime) -> str:
        # The hash is over this text, so it is spelled here and not by a library's next release.
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class AuditEntry(AuditDraft):
    """One entry of the log."""

    id: int = Field(description="Counted from 1, without gaps.", examples=[1042])
    previous: str = Field(description="The hash of the entry before; zeros for the first.")
    hash: str = Field(description="SHA-256 over the canonical JSON of all other fields.")

    @classmethod
    def after(cls, last_id: int, last_hash: str | None, draft: AuditDraft) -> Self:
        """Return the draft as the next link of the chain."""
        content = {
            **draft.model_dump(mode="json"),
            "id": last_id + 1,
            "previous": last_hash or FIRST,
        }
        return cls.model_validate({**content, "hash": digest(content)})

    def line(self) -> str:
        """Return the entry as it is exported and as its hash is checked."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


class AuditFilter(Frozen):
    """Filter for audit entries; None: all."""

    actor: str | None = None
    """The user, or the administrator who impersonated a user."""
    action: str | None = None
    object: str | None = None
    """This one, or what lies below it."""
    outcome: Outcome | None = None
    since: UtcTime | None = None
    until: UtcTime | None = None


class AuditCheck(Frozen):
    """Result of a check of the whole chain."""

    whole: bool = Field(description="Nothing was changed, removed or inserted.")
    entries: int = Field(description="How many entries are in order, from the first on.")
    last_hash: str | None = Field(
        description="The hash of the last of them: note it elsewhere, and even somebody who makes "
        "all hashes anew is found out."
    )
    broken_entry: int | None = Field(None, description="The number of the first that is wrong.")
    problem: str | None = Field(None, description="What is wrong with it.")
