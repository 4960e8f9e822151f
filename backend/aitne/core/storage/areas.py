"""Paths of the folders of a user and of the user's projects, computed without accessing a file
system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aitne.core.errors import InvalidInput
from aitne.core.models.base import USER_NAME, Frozen
from aitne.core.models.storage_area import Area, AreaKind
from aitne.core.ports.unix_account_mapping import UnixAccount
from aitne.core.storage.storage_and_container_settings import (
    HOME,
    PLACEHOLDER,
    AreaSettings,
    StorageSettings,
)

_NAME = re.compile(USER_NAME)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class AreaOwner(Frozen):
    """Values that replace the placeholders in path patterns."""

    user: str
    """Name of the Unix account."""
    uid: int
    home: str


def make_area_owner(account: UnixAccount) -> AreaOwner:
    """Return the values of the placeholders ``{user}``, ``{uid}`` and ``{home}`` in the paths of
    storage areas, for the owner of a Unix account.
    """
    return AreaOwner(user=account.user, uid=account.uid, home=account.home)


def list_areas(
    settings: StorageSettings, owner: AreaOwner, projects: Iterable[str] = ()
) -> tuple[Area, ...]:
    """Return the storage areas of the owner and of ``projects``: the home folder first, the others
    in the order of the settings.

    Raises:
        InvalidInput: a name or home folder cannot be part of a path.
    """
    areas = [
        Area(
            name=HOME, kind=AreaKind.USER, path=_normalize_path(owner.home), adapter=settings.home
        ),
    ]
    project_names = tuple(dict.fromkeys(projects))
    for area in settings.areas:
        if area.kind is AreaKind.USER:
            areas.append(_make_area(area, owner, None))
        else:
            areas.extend(_make_area(area, owner, project) for project in project_names)
    return tuple(areas)


def is_created_by_platform(settings: StorageSettings, area: Area) -> bool:
    """Return whether the platform creates the folder of the area if it is missing: always for the
    home folder, otherwise as configured.
    """
    if area.name == HOME:
        return True
    return any(setting.make for setting in settings.areas if setting.name == area.name)


def cache_folder(settings: StorageSettings, owner: AreaOwner) -> str | None:
    """Return the folder in which the owner's jobs store caches; None if they use the home folder.

    Raises:
        InvalidInput: a name or home folder cannot be part of a path.
    """
    return (
        None
        if settings.caches is None
        else _normalize_path(fill_placeholders(settings.caches, owner))
    )


def fill_placeholders(pattern: str, owner: AreaOwner, project: str | None = None) -> str:
    """Return the pattern with all placeholders replaced, in one pass, so that a value is never read
    as a pattern.

    Raises:
        InvalidInput: a name or home folder cannot be part of a path.
    """

    def value(match: re.Match[str]) -> str:
        kind = match[1]
        if kind == "home":
            return _normalize_path(owner.home)
        if kind == "uid":
            return str(owner.uid)
        name = owner.user if kind == "user" else project
        if name is None or _NAME.fullmatch(name) is None:
            raise InvalidInput.field(kind, "is not a valid folder name", value=(name or "")[:64])
        return name

    return PLACEHOLDER.sub(value, pattern)


def allowed_roots(areas: Sequence[Area], further: Iterable[object] = ()) -> tuple[str, ...]:
    """Return the folders below which an account's jobs may use paths: its areas, and the absolute
    paths in ``further``.
    """
    return tuple(dict.fromkeys([area.path for area in areas] + [str(path) for path in further]))


def is_within(path: str, roots: Iterable[str]) -> bool:
    """Return whether ``path`` is one of the roots or below one. Only the names are compared.

    Components are compared: ``/scratch/al`` is not within ``/scratch/alice``. The result is False
    for a path or root that is not absolute or contains ``..``. Links are not followed: to consider
    them, also check the real path that ``UserFolders.read_paths`` returns.
    """
    parts = _split_path(path)
    if parts is None:
        return False
    for root in roots:
        above = _split_path(root)
        if above and parts[: len(above)] == above:
            return True
    return False


def _make_area(settings: AreaSettings, owner: AreaOwner, project: str | None) -> Area:
    return Area(
        name=settings.name,
        kind=settings.kind,
        path=_normalize_path(fill_placeholders(settings.path, owner, project)),
        adapter=settings.storage,
        project=project,
        mount=None if settings.mount is None else str(settings.mount),
    )


def _normalize_path(text: str) -> str:
    """Return the normalized path.

    Raises ``InvalidInput`` if it is not absolute or contains ``..``.
    """
    parts = _split_path(text)
    if not parts:
        raise InvalidInput.field(
            "path", "an absolute path without `..` is required", value=text[:400]
        )
    return "/" + "/".join(parts)


def _split_path(path: str) -> list[str] | None:
    """Return the components of an absolute path; None if the path is not absolute or contains
    ``..``.
    """
    if not path.startswith("/") or _CONTROL.search(path):
        return None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in parts else parts
