"""Secrets of the platform and of Slurm on this machine, and who can read them."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from aitne.core.errors import AitneError
from aitne.core.settings import Settings
from aitne.services.platform.exposed_files import (
    GROUP_AND_OTHERS,
    SecretFile,
    SecretsSeen,
    inspect_files,
    list_platform_secret_files,
)

MUNGE_KEY = Path("/etc/munge/munge.key")
SLURM_FOLDER = Path("/etc/slurm")
WITHIN_S = 3.0
"""Seconds within which Slurm must return its configuration."""
FRESH_S = 3_600.0
"""Seconds after which Slurm's configuration is read again."""
RETRY_S = 60.0
"""Seconds after which it is read again if Slurm did not return it."""

ReadConfig = Callable[[], Awaitable[Mapping[str, str]]]


class SecretFiles:
    """Files with secrets on this machine.

    Args:
        settings: settings of the platform.
        slurm_config: returns names and values of ``scontrol show config``; None: the scheduler is
            not Slurm.
        more: further files, which settings of the broker name.
    """

    def __init__(
        self, settings: Settings, slurm_config: ReadConfig | None, more: Collection[Path] = ()
    ) -> None:
        self._settings = settings
        self._read = slurm_config
        self._more = more
        self._known: tuple[Mapping[str, str] | str, float] | None = None
        """Slurm's configuration, or why it is not known, and the time until which that holds."""

    async def inspect(self) -> SecretsSeen:
        """Return which files are exposed, and which this process could not look at or are not here."""
        config = {} if self._read is None else await self._get_slurm_config(self._read)
        return await asyncio.to_thread(self._inspect_with_config, config)

    def _inspect_with_config(self, config: Mapping[str, str] | str) -> SecretsSeen:
        own = [*list_platform_secret_files(self._settings), *map(SecretFile, self._more)]
        if not isinstance(config, str):
            files = [*own, *list_slurm_secret_files(config)]
            return inspect_files(
                files, self._settings, _find_service_uids(config.get("SlurmUser", ""))
            )
        usual = [SecretFile(_munge_key(None), GROUP_AND_OTHERS)]
        usual.append(SecretFile(SLURM_FOLDER / "slurmdbd.conf", GROUP_AND_OTHERS))
        usual.append(SecretFile(SLURM_FOLDER / "jwt.key"))
        seen = inspect_files([*own, *usual], self._settings, _find_service_uids(""))
        reason = f"Slurm does not say which files have its keys: {config}"
        return SecretsSeen(seen.exposed, (*seen.unseen, reason), seen.elsewhere)

    async def _get_slurm_config(self, read: ReadConfig) -> Mapping[str, str] | str:
        now = asyncio.get_running_loop().time()
        if self._known is None or now >= self._known[1]:
            try:
                async with asyncio.timeout(WITHIN_S):
                    self._known = await read(), now + FRESH_S
            except TimeoutError:
                self._known = f"no answer within {WITHIN_S:.0f} s.", now + RETRY_S
            except AitneError as error:
                self._known = error.message, now + RETRY_S
        return self._known[0]


def list_slurm_secret_files(config: Mapping[str, str]) -> Iterator[SecretFile]:
    """Yield the files with keys and passwords of Slurm, from ``scontrol show config``. With these keys
    anyone can act as every user.
    """
    folder = Path(config.get("SLURM_CONF") or SLURM_FOLDER / "slurm.conf").parent
    methods = ",".join(config.get(name, "") for name in ("AuthType", "AuthAltTypes", "CredType"))
    controller = _find_remote_host(
        config.get("SlurmctldHost[0]", config.get("SlurmctldHost", "")).partition("(")[0]
    )
    if "auth/jwt" in methods:
        usual = f"{config.get('StateSaveLocation', '')}/jwt_hs256.key"
        key = Path(_find_auth_parameter(config, "jwt_key") or usual)
        yield SecretFile(key, required=True, elsewhere=controller)
    if "munge" in methods:
        key = _munge_key(_find_auth_parameter(config, "socket"))
        yield SecretFile(key, GROUP_AND_OTHERS, required=True)
    if "auth/slurm" in methods:
        yield SecretFile(folder / "slurm.key", required=True)
    if "slurmdbd" in config.get("AccountingStorageType", ""):
        places = [place / "slurmdbd.conf" for place in (folder, SLURM_FOLDER)]
        path = next((place for place in places if os.path.exists(place)), places[0])
        elsewhere = _find_remote_host(config.get("AccountingStorageHost", ""))
        yield SecretFile(path, GROUP_AND_OTHERS, required=True, elsewhere=elsewhere)


def _find_remote_host(host: str) -> str | None:
    """Return the host if it is another machine than this one."""
    name = socket.gethostname()
    here = {"", "(null)", "localhost", "127.0.0.1", "::1", name, name.partition(".")[0]}
    return None if host in here or host.partition(".")[0] == name.partition(".")[0] else host


def _find_service_uids(slurm_user: str) -> set[int]:
    """Return the uids of the accounts of Slurm and munge, which may be as high as those of users:
    Debian's ``slurm`` is 64030. ``slurm_user`` is Slurm's setting, such as ``slurm(64030)``.
    """
    number = slurm_user.partition("(")[2].removesuffix(")")
    found = {int(number)} if number.isdecimal() else set()
    for name in ("slurm", "munge"):
        with suppress(KeyError):
            found.add(pwd.getpwnam(name).pw_uid)
    return found


def _find_auth_parameter(config: Mapping[str, str], name: str) -> str | None:
    """Return a parameter of Slurm's authentication, such as ``jwt_key``; None: it is not set."""
    for words in (config.get("AuthAltParameters", ""), config.get("AuthInfo", "")):
        for word in words.split(","):
            if word.strip().startswith(f"{name}="):
                return word.partition("=")[2].strip()
    return None


def _munge_key(listens_at: str | None) -> Path:
    """Return the path of the key of the munged that listens at a socket (None: at the usual one): the
    option of its process, or the usual path.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue
        options = dict(option.split("=", 1) for option in argv[1:] if "=" in option)
        if os.path.basename(argv[0]) == "munged" and options.get("--socket") == listens_at:
            return Path(options.get("--key-file", MUNGE_KEY))
    return MUNGE_KEY
