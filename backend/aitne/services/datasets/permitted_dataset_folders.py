"""Check of the folders that a user may add as a dataset."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable

from aitne.core.errors import InvalidInput
from aitne.core.models.user import Actor
from aitne.core.ports.storage_system import UserFolders
from aitne.core.ports.unix_account_mapping import Accounts
from aitne.core.storage.areas import is_within, list_areas, make_area_owner
from aitne.core.storage.storage_and_container_settings import StorageSettings


class DatasetPaths:
    """Check that a dataset's folder lies below the root folders that the site permits, both before
    and after symbolic links are resolved.
    """

    def __init__(self, settings: StorageSettings, accounts: Accounts, places: UserFolders) -> None:
        self._settings = settings
        self._accounts = accounts
        self._places = places

    async def check_path(self, actor: Actor, path: str) -> str:
        """Check that ``path`` may be registered as the folder of a dataset. Return the path that
        jobs mount: the same one with symbolic links resolved.

        Raises:
            InvalidInput: the path is neither below one of the actor's own folders nor in a folder
                for datasets, or contains ``..``, or is not a folder that the actor's account can
                read.
            NotAllowed: the platform may not act as the actor's account.
            Unavailable: the file system or the broker does not answer.
        """
        account = await asyncio.to_thread(self._accounts.get_account, actor.name)
        own_folders = [
            area.path
            for area in list_areas(self._settings, make_area_owner(account), sorted(actor.projects))
        ]
        shared = [str(folder) for folder in self._settings.datasets]
        plain = "/" + posixpath.normpath(path).lstrip("/")
        # A path with ".." may lead elsewhere than its normalized form.
        if ".." in path.split("/") or not _is_allowed_path(plain, own_folders, shared):
            raise _make_outside_error(path, own_folders, shared)
        roots = [*own_folders, *shared]
        target, *real = await self._places.read_paths(account.name, [plain, *roots])
        if target.kind != "folder" or not target.readable or target.real_path is None:
            reason = target.problem or (
                "it does not exist" if target.kind is None else "it is not a folder"
            )
            who = account.user or account.name or "the platform's account"
            raise InvalidInput.field(
                "path", f"{who} cannot read it as a folder: {reason}", value=path
            )
        resolved = {facts.path: facts.real_path or facts.path for facts in real}
        if not _is_allowed_path(
            target.real_path,
            [resolved.get(root, root) for root in own_folders],
            [resolved.get(root, root) for root in shared],
        ):
            raise InvalidInput.field(
                "path",
                f"it leads to {target.real_path}, which lies outside the folders for datasets",
                value=path,
                allowed=_format_folders(own_folders, shared),
            )
        return target.real_path


def _is_allowed_path(path: str, own_folders: Iterable[str], shared: Iterable[str]) -> bool:
    """Return whether the path is below one of the actor's folders (``own_folders``), or is a folder
    for datasets (``shared``) or below one.
    """
    if is_within(path, shared):
        return True
    return any(is_within(path, [root]) and not is_within(root, [path]) for root in own_folders)


def _make_outside_error(
    path: str, own_folders: Iterable[str], shared: Iterable[str]
) -> InvalidInput:
    return InvalidInput.field(
        "path",
        "a dataset lies below a folder of yours, or where the site keeps datasets, and its path has "
        "no `..`",
        value=path,
        allowed=_format_folders(own_folders, shared),
    )


def _format_folders(own_folders: Iterable[str], shared: Iterable[str]) -> str:
    return ", ".join([*(f"{root}/…" for root in own_folders), *shared])
