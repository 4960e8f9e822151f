"""Files of users, read by the broker under their accounts."""

from __future__ import annotations

from typing import Any

from aitne.adapters.broker_scheduler import BrokerClient
from aitne.core.broker.account_file_verbs import ReadPartResult
from aitne.core.errors import NotAllowed
from aitne.core.models.stored_file import FileList, StoredFile
from aitne.core.ports.account_files import FileRoot
from aitne.core.settings import Settings


class BrokerAccountFiles:
    """Implementation of ``core.ports.account_files.AccountFiles`` through the broker, which acts as
    the account.
    """

    def __init__(self, settings: Settings) -> None:
        self._client = BrokerClient(settings)

    async def get_entry(self, root: FileRoot, path: str) -> StoredFile:
        """Return the entry at ``path``."""
        return await self._client.call(
            "look_at_file", _make_broker_arguments(root, path), StoredFile
        )

    async def list_folder(self, root: FileRoot, path: str, *, after: str, limit: int) -> FileList:
        """Return up to ``limit`` entries of the folder whose names follow ``after``."""
        args = {**_make_broker_arguments(root, path), "after": after, "limit": limit}
        return await self._client.call("list_folder", args, FileList)

    async def read_part(
        self, root: FileRoot, path: str, *, etag: str, offset: int, limit: int
    ) -> bytes:
        """Return up to ``limit`` bytes of the file from byte ``offset`` on."""
        args = {
            **_make_broker_arguments(root, path),
            "etag": etag,
            "offset": offset,
            "limit": limit,
        }
        return (await self._client.call("read_part", args, ReadPartResult)).data

    async def close(self) -> None:
        """Close the connections to the broker."""
        await self._client.close()


def _make_broker_arguments(root: FileRoot, path: str) -> dict[str, Any]:
    if root.account is None:
        raise NotAllowed(
            "The job has no Unix account: it was created when the platform had no broker, and the "
            "broker reads files only as an account."
        )
    return {"root": root.model_dump(mode="json"), "path": path}
