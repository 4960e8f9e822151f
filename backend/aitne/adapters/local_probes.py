"""Checks of services on this machine by sockets and system calls; no programs are run."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from aitne.adapters.path_facts import TimeoutExecutor, find_mount_point
from aitne.adapters.presented_certificate import fetch_server_certificate
from aitne.core.errors import Unavailable
from aitne.core.ports.health_probes import FilesystemSpace, Probes
from aitne.local_system.http_status_client import request_http_status

_T = TypeVar("_T")
WITHIN_S = 3.0


class LocalProbes(Probes):
    """Implementation of ``core.ports.health_probes.Probes`` that checks from this machine; each check
    takes at most ``within_s`` seconds.
    """

    def __init__(self, *, within_s: float = WITHIN_S) -> None:
        self._within_s = within_s
        self._patience = TimeoutExecutor(within_s)

    @override
    async def check_http(self, url: str) -> None:
        try:
            status = await request_http_status(url, within_s=self._within_s)
        except TimeoutError as error:
            raise Unavailable(f"{url} did not answer within {self._within_s:g} s.") from error
        except OSError as error:
            raise Unavailable(f"{url} cannot be reached: {_format_os_error(error)}.") from error
        except ValueError as error:
            raise Unavailable(str(error)) from error
        if status >= 500:
            raise Unavailable(f"{url} answers with the error {status}.")

    @override
    async def check_socket(self, path: Path) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                _, writer = await asyncio.open_unix_connection(path)
                writer.close()
        except TimeoutError as error:
            raise Unavailable(f"{path} did not answer within {self._within_s:g} s.") from error
        except OSError as error:
            raise Unavailable(
                f"No process listens at {path}: {_format_os_error(error)}."
            ) from error

    @override
    async def get_certificate_validity(self, host: str, port: int) -> tuple[datetime, datetime]:
        look = partial(fetch_server_certificate, host, port, within_s=self._within_s)
        try:
            async with asyncio.timeout(self._within_s):
                found = await asyncio.to_thread(look)
        except TimeoutError as error:
            raise Unavailable(f"{host}:{port}: no answer within {self._within_s:g} s.") from error
        return found.not_valid_before_utc, found.not_valid_after_utc

    @override
    async def check_folder(self, path: Path) -> None:
        if not await self._run_in_thread(path, path.is_dir):
            raise Unavailable(f"There is no folder {path}.")

    @override
    async def measure_space(self, path: Path) -> tuple[int, int]:
        usage = await self._run_in_thread(path, lambda: shutil.disk_usage(path))
        return usage.free, usage.total

    @override
    async def measure_filesystems(
        self, folders: Mapping[str, Path]
    ) -> Mapping[str, FilesystemSpace]:
        tasks = [
            (find_mount_point(str(path)), partial(_read_filesystem_space, path))
            for path in folders.values()
        ]
        found = await asyncio.to_thread(self._patience.gather, tasks)
        return {
            name: space for name, space in zip(folders, found, strict=True) if space is not None
        }

    async def _run_in_thread(self, path: Path, look: Callable[[], _T]) -> _T:
        try:
            async with asyncio.timeout(self._within_s):
                return await asyncio.to_thread(look)
        except TimeoutError as error:
            raise Unavailable(
                f"The file system of {path} did not answer within {self._within_s:g} s."
            ) from error
        except OSError as error:
            raise Unavailable(f"{path} cannot be inspected: {_format_os_error(error)}.") from error


def _read_filesystem_space(path: Path) -> FilesystemSpace | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    unit = found.f_frsize
    return FilesystemSpace(
        found.f_blocks * unit, found.f_bavail * unit, found.f_files, found.f_favail
    )


def _format_os_error(error: OSError) -> str:
    # asyncio's message for the failure of several addresses is one long text.
    return error.strerror or type(error).__name__
