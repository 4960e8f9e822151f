"""Secrets of users: stored encrypted, and passed only to jobs of their owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from aitne.core.errors import Conflict, FieldProblem, InvalidInput
from aitne.core.models.job_file import RESERVED_ENV
from aitne.core.models.user import Actor
from aitne.core.models.user_secret import MOST_SECRETS, UserSecret
from aitne.core.users.permissions import PolicyAction, require_permission
from aitne.services.platform.encryption import Cipher
from aitne.store.user_secrets import UserSecretStore


class UserSecretService:
    """Service that stores users' secrets encrypted, and decrypts them for the users' jobs."""

    def __init__(
        self, store: UserSecretStore, cipher: Cipher, clock: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._cipher = cipher
        self._clock = clock

    async def list(self, actor: Actor) -> Sequence[UserSecret]:
        """Return the actor's secrets without their values.

        Raises ``NotAllowed`` if the credential does not permit that.
        """
        require_permission(PolicyAction.SECRET_READ, actor, "secret", actor.name, owner=actor.name)
        return await self._store.list_user_secrets(actor.name)

    async def set_secret(self, actor: Actor, name: str, value: str) -> UserSecret:
        """Store a secret, or replace its value. Running jobs keep the value with which they
        started.

        Raises:
            NotAllowed: the credential may not change anything.
            InvalidInput: the name is reserved for the platform.
            Conflict: the actor has too many secrets.
        """
        require_permission(PolicyAction.SECRET_WRITE, actor, "secret", name, owner=actor.name)
        if name.startswith(RESERVED_ENV):
            raise InvalidInput.field(
                "name", f"{name} belongs to the platform; choose a name without its prefix"
            )
        encrypted = self._cipher.encrypt(value, _make_cipher_purpose(actor.name, name))
        return await self._store.save_user_secret(
            actor.name, name, encrypted, self._clock(), max_secrets=MOST_SECRETS
        )

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a secret of the actor.

        Raises ``NotFound`` if there is no such secret, and ``NotAllowed`` if the credential may not
        change anything.
        """
        require_permission(PolicyAction.SECRET_WRITE, actor, "secret", name, owner=actor.name)
        await self._store.delete_user_secret(actor.name, name)

    async def list_missing(self, owner: str, names: Sequence[str]) -> Sequence[FieldProblem]:
        """Return a problem for each of ``names``, from a job file, for which the owner has stored
        no secret.
        """
        if not names:
            return []
        encrypted_values = await self._store.list_encrypted_user_secrets(owner, names)
        existing_names = ", ".join(
            secret.name for secret in await self._store.list_user_secrets(owner)
        )
        return [
            FieldProblem(
                f"secrets[{number}]",
                f"you have no secret {name}; store it with `aitne secret set {name}`",
                name,
                existing_names or None,
            )
            for number, name in enumerate(names)
            if name not in encrypted_values
        ]

    async def values(self, owner: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the decrypted values of the owner's secrets, by name, for a job of the owner.

        Raises:
            Conflict: a secret was deleted, or cannot be decrypted.
        """
        encrypted_values = await self._store.list_encrypted_user_secrets(owner, names)
        values = {}
        for name in names:
            if name not in encrypted_values:
                raise Conflict(f"The secret {name} of {owner} was deleted. Store it again.")
            try:
                values[name] = self._cipher.decrypt(
                    encrypted_values[name], _make_cipher_purpose(owner, name)
                )
            except ValueError:
                raise Conflict(
                    f"The secret {name} of {owner} was stored with another encryption key. "
                    "Store it again."
                ) from None
        return values


def _make_cipher_purpose(owner: str, name: str) -> str:
    return f"secret {name} of {owner}"
