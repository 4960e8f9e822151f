"""The audit log: each change with its actor, object, origin and outcome. Entries never change."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field, field_serializer

from aitne.core.audit_chain import FIRST, compute_entry_hash
from aitne.core.models.base import Frozen, UtcTime, deprecated_copy

RESTORE = "restore_backup"
"""Action of the entry that `aitne admin restore` appends to the log of a restored database."""


class Outcome(StrEnum):
    """Outcome of an audited action."""

    ALLOWED = "allowed"
    """The action was permitted and carried out."""
    DENIED = "denied"
    """The user is not permitted to do this, or did not authenticate."""
    FAILED = "failed"
    """The action failed: the request was invalid, or a component did not work."""


class AuditDraft(Frozen):
    """Content of an audit log entry before the store adds its number and the hashes of the
    chain.
    """

    time: UtcTime = Field(
        description="Time of the action.", json_schema_extra={"format": "date-time"}
    )
    actor: str = Field(
        description="User whose permissions were used, or the name in a login attempt.",
        examples=["ada"],
    )
    impersonator: str | None = Field(
        None, description="The administrator who impersonated the user; null: none did."
    )
    action: str = Field(
        description="The operation of the API, such as drain_node, or login.",
        examples=["drain_node"],
    )
    object: str | None = Field(
        None,
        description="Object of the action: the parts of its address, separated by slashes.",
        examples=["gpu03", "vision/ada"],
    )
    outcome: Outcome = Field(description="Outcome of the action.")
    address: str | None = Field(
        None, description="Network address of the request.", examples=["192.0.2.17"]
    )
    details: dict[str, Any] = Field(
        default_factory=dict,
        description="Further details: the status of the response, a reason, the changes.",
        examples=[{"status": 202, "reason": "new fans"}],
    )

    @field_serializer("time", when_used="json")
    def _serialize_time(self, value: datetime) -> str:
        # The hash is over this text, so it is spelled here and not by a library's next release.
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class AuditEntry(AuditDraft):
    """Stored entry of the audit log, with its number and hashes."""

    id: int = Field(
        description="Number of the entry, counted from 1 without gaps.", examples=[1042]
    )
    previous: str = Field(description="The hash of the entry before; zeros for the first.")
    hash: str = Field(description="SHA-256 over the canonical JSON of all other fields.")

    @classmethod
    def from_draft(cls, last_id: int, last_hash: str | None, draft: AuditDraft) -> Self:
        """Return the entry that the draft becomes after the entry with the number ``last_id`` and
        the hash ``last_hash``.
        """
        content = {
            **draft.model_dump(mode="json"),
            "id": last_id + 1,
            "previous": last_hash or FIRST,
        }
        return cls.model_validate({**content, "hash": compute_entry_hash(content)})

    def to_line(self) -> str:
        """Return the entry as one line of JSON, as it is exported and hashed."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))


class AuditFilter(Frozen):
    """Filter for audit log entries; a field that is None does not restrict the result."""

    actor: str | None = None
    """Name of the user, or of the administrator who impersonated a user."""
    action: str | None = None
    object: str | None = None
    """Name of the object; objects below it are included."""
    outcome: Outcome | None = None
    since: UtcTime | None = None
    until: UtcTime | None = None
    preferences: bool = True
    """Whether changes of users' own preferences in the portal are included."""


class AuditCheck(Frozen):
    """Result of checking the chain of hashes over the whole audit log."""

    intact: bool = Field(description="Whether no entry was changed, removed or inserted.")
    entries: int = Field(description="Number of valid entries, from the first on.")
    last_hash: str | None = Field(
        description="Hash of the last valid entry. A copy of it elsewhere reveals even a change "
        "after which all hashes were computed again."
    )
    broken_entry: int | None = Field(None, description="Number of the first invalid entry.")
    problem: str | None = Field(None, description="Problem with that entry.")
    whole: ClassVar = deprecated_copy("intact", bool)
