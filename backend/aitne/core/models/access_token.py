"""Access tokens of users, and their scopes."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from aitne.core.models.base import Frozen, UserName, UtcTime


class Scope(StrEnum):
    """Scope of an access token: actions that it permits, if its owner may take them."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Token(Frozen):
    """Access token of a user, without its secret, of which only a hash is stored."""

    id: str
    owner: UserName
    name: str = Field(min_length=1, max_length=100)
    scopes: frozenset[Scope]
    created_at: UtcTime
    expires_at: UtcTime | None
    last_used_at: UtcTime | None = None
    created_by: UserName | None = Field(
        None, description="The administrator who created it for its owner; null: its owner did."
    )
