"""Files with secrets that accounts other than the platform's can read or change."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from aitne.core.settings import Settings

_OTHERS = stat.S_IRWXO
_GROUP_AND_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def exposed_files(settings: Settings) -> list[Path]:
    """Return the files and folders with secrets whose permissions are too open, sorted.

    In the data directory neither the group nor others may have access. Files that the settings name
    may be readable by their group, and so may ``aitne.toml``, which is checked only if it contains
    the password of the database. Files that cannot be inspected are omitted.
    """
    return sorted(path for path, forbidden in _secrets(settings) if _mode(path) & forbidden)


def _secrets(settings: Settings) -> Iterator[tuple[Path, int]]:
    folder = settings.secrets_dir
    yield folder, _GROUP_AND_OTHERS
    if folder.is_dir():
        for path in folder.iterdir():
            yield path, _GROUP_AND_OTHERS
    yield settings.data_dir / "aitne.db", _GROUP_AND_OTHERS
    given = (
        settings.tls.key,
        settings.tls.sessions_key,
        settings.mail.password_file,
        settings.auth.ldap.bind_password_file,
        settings.auth.oidc.client_secret_file,
        settings.slurm.jwt_key,
    )
    for named in given:
        if named is not None:
            yield named, _OTHERS
    if (
        settings.database is not None
        and ":" in settings.database.partition("://")[2].rpartition("@")[0]
    ):
        yield settings.data_dir / "aitne.toml", _OTHERS


def _mode(path: Path) -> int:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return 0
    return 0 if stat.S_ISLNK(mode) else stat.S_IMODE(mode)
