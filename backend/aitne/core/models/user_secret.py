"""Secrets of users: values that jobs get as environment variables and that no other request
returns.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from aitne.core.models.base import EnvName, Frozen, Strict, UtcTime, check_passable

MOST_SECRETS = 100
"""Maximum number of secrets of one user."""
MOST_CHARACTERS = 32_768


class UserSecret(Frozen):
    """A secret of a user, without its value."""

    name: EnvName
    created_at: UtcTime
    updated_at: UtcTime = Field(description="Time at which its value was last stored.")


class SecretValue(Strict):
    """Value of a secret, in a request that stores it."""

    value: Annotated[str, AfterValidator(check_passable)] = Field(
        min_length=1,
        max_length=MOST_CHARACTERS,
        description="Value of the environment variable. It is never shown again.",
    )
