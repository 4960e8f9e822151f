"""Routes of the user's secrets, which jobs get as environment variables."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from aitne.api.dependencies import PlatformDep, Reader, Writer
from aitne.api.routers import V1
from aitne.core.models.base import EnvName, Frozen
from aitne.core.models.user_secret import SecretValue, UserSecret

router = APIRouter(prefix=f"{V1}/secrets", tags=["secrets"])

SecretName = Annotated[EnvName, Path(description="Name of the environment variable.")]


class UserSecretList(Frozen):
    """All secrets of a user, by name."""

    items: list[UserSecret]


@router.get("")
async def list_secrets(actor: Reader, platform: PlatformDep) -> UserSecretList:
    """List your secrets. Values are never shown."""
    return UserSecretList(items=list(await platform.user_secrets.list(actor)))


@router.put("/{name}")
async def put_secret(
    name: SecretName, body: SecretValue, actor: Writer, platform: PlatformDep
) -> UserSecret:
    """Store a secret, or replace its value. A job that names it in `secrets` gets it as an
    environment variable."""
    return await platform.user_secrets.set_secret(actor, name, body.value)


@router.delete("/{name}", status_code=204)
async def delete_secret(name: SecretName, actor: Writer, platform: PlatformDep) -> None:
    """Delete a secret. Running jobs keep its value; jobs that need it and have not started will
    fail."""
    await platform.user_secrets.delete(actor, name)
