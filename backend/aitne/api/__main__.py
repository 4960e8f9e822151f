"""``python -m aitne.api``: the process that serves the API and the portal with uvicorn, in one
worker."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import uvicorn
import uvloop
from uvicorn._types import ASGI3Application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aitne.api.app import create_app
from aitne.api.certificate_renewal import PortalCertificate
from aitne.api.connections import ConnectionLimits, OpenConnections
from aitne.api.http_connection import HttpConnection, WebSocketConnection
from aitne.api.streaming import OpenStreams
from aitne.api.tls_listener import TlsListener
from aitne.bootstrap.platform_services import build_platform
from aitne.core.errors import AitneError, SetupError
from aitne.core.settings import Settings
from aitne.local_system import held_process_start
from aitne.local_system.http_status_client import PROBE_SOCKET
from aitne.local_system.settings_loader import load_settings
from aitne.services.platform.event_hub import EventHub

STOP_WITHIN_S = 2
_BACKLOG = 2_048
_M_MMAP_THRESHOLD = -3
"""Number of this option of mallopt(3)."""
_LARGE_BYTES = 64 << 10
_Http = TypeVar("_Http", bound=HttpToolsProtocol)


class _Server(uvicorn.Server):
    """Uvicorn server that listens with and without TLS at the same time (uvicorn itself has one
    mode for all of its sockets), closes connections whose clients are late, and ends event streams
    and followed logs before it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: OpenConnections,
        streams: OpenStreams,
        events: EventHub,
        probes: socket.socket,
        with_tls: tuple[socket.socket, PortalCertificate] | None,
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._streams = streams
        self._events = events
        self._probes = probes
        self._with_tls = with_tls
        self._renewal: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        make = partial(self._make_connection, HttpToolsProtocol)
        self.servers.append(await loop.create_server(make, sock=self._probes))
        if self._with_tls is not None:
            listener, certificate = self._with_tls
            make_http = partial(self._make_connection, cast(type[HttpConnection], self.config.http))
            backlog = self.config.backlog
            with_tls = TlsListener(listener, certificate.context, make_http, backlog=backlog)
            self.servers.append(cast(asyncio.Server, with_tls))
            look = asyncio.Event()
            loop.add_signal_handler(signal.SIGHUP, look.set)
            self._renewal = asyncio.create_task(certificate.keep_renewed(look))

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # each second
            self._connections.close_late_connections()
        return await super().on_tick(counter)

    def _make_connection(self, kind: type[_Http]) -> _Http:
        return kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._streams.close()
        await self._events.stop()
        await super().shutdown(sockets)


def open_listener(address: str, port: int) -> socket.socket:
    """Return a TCP socket bound to ``address`` and ``port``, on which the portal will listen.

    Raises:
        SetupError: the port is in use, or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"Port {port} on {address} is in use by another program. Stop that "
                "program, or start this platform with another port: `aitne up --port N`."
            ) from error
        raise SetupError(
            f"The portal cannot listen on {address}:{port}: {error.strerror}. "
            "Set `bind` to an address of this machine, and `port` to one you may use."
        ) from error
    return listener


def open_proxy_listener(path: Path) -> socket.socket:
    """Return a UNIX socket at ``path`` for a reverse proxy; only the platform's Unix account and
    group may connect.

    Raises:
        SetupError: the socket cannot be created.
    """
    try:
        return _open_unix_listener(path, 0o660)
    except OSError as error:
        raise SetupError(
            f"The socket {path} of the reverse proxy cannot be created: {error.strerror}. Set "
            "`proxy_socket` to a path in a folder of the platform's account."
        ) from error


def open_probe_listener(run_dir: Path) -> socket.socket:
    """Return a UNIX socket in ``run_dir`` for the supervisor's probes, to which only the platform's
    own account can connect. Connections on it have no limits, so that a process whose connections
    are all taken does not count as hung.

    Raises:
        SetupError: the socket cannot be created.
    """
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(run_dir, os.O_PATH | os.O_DIRECTORY)
    try:
        # A socket path has at most 107 bytes, and data directories may be deeply nested.
        return _open_unix_listener(Path(f"/proc/self/fd/{folder}/{PROBE_SOCKET}"), 0o600)
    except OSError as error:
        raise SetupError(
            f"The socket {run_dir / PROBE_SOCKET} cannot be created: {error.strerror}."
        ) from error
    finally:
        os.close(folder)


def _open_unix_listener(path: Path, mode: int) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            path.unlink()  # left by a killed process
        before = os.umask(0o777 & ~mode)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
    except OSError:
        listener.close()
        raise
    return listener


def raise_file_limit() -> None:
    """Raise the API process's limit of open files to its hard limit: the usual soft limit of 1,024
    is too low for the connections of many browsers.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def return_large_buffers() -> None:
    """Make glibc return the memory of each large buffer, such as a part of an upload, as soon as it is
    freed. By default glibc takes them from its heap after the first one was freed, and many uploads
    at once enlarge the heap for good. Does nothing with another C library."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def _is_from_trusted_proxy(proxies: str | None) -> Callable[[str], bool]:
    """Return whether the connections from an address are those of a reverse proxy that the variable
    ``FORWARDED_ALLOW_IPS`` names."""
    if proxies is None:
        return lambda address: False
    trusted = ProxyHeadersMiddleware(cast(ASGI3Application, None), proxies).trusted_hosts
    return lambda address: address in trusted


async def serve(settings: Settings) -> None:
    """Serve requests until a signal stops the process."""
    raise_file_limit()
    return_large_buffers()
    platform = build_platform(settings)
    app = create_app(platform)
    held_process_start.wait_for_release()
    listener, with_tls = open_listener(settings.bind, settings.port), None
    if settings.tls.enabled:
        with_tls = (listener, PortalCertificate(settings))
        listener = open_listener("127.0.0.1", settings.port_of_internal)
    listeners = [listener]
    if settings.proxy_socket is not None:
        listeners.append(open_proxy_listener(settings.proxy_socket))
    probes = open_probe_listener(settings.run_dir)
    await platform.store.start()
    try:
        limits = ConnectionLimits.for_process()
        connections = OpenConnections(limits)
        proxies = os.environ.get("FORWARDED_ALLOW_IPS")
        config = uvicorn.Config(
            app,
            http=cast(
                type[HttpConnection],
                partial(HttpConnection, connections, _is_from_trusted_proxy(proxies)),
            ),
            ws=WebSocketConnection,
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,  # most messages are small, SSH traffic is encrypted
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            # Those that are accepted at once need descriptors beside those that are open.
            backlog=min(_BACKLOG, limits.total // 2),
            timeout_graceful_shutdown=STOP_WITHIN_S,
            # Any local process could forge them; a site that names its proxies accepts that risk.
            proxy_headers=proxies is not None,
        )
        # Objects created so far live as long as the process: the collector need not scan them.
        gc.collect()
        gc.freeze()
        server = _Server(config, connections, app.state.streams, platform.events, probes, with_tls)
        await server.serve(sockets=listeners)
    finally:
        await platform.store.close()


def main() -> int:
    """Start the API process and return its exit status; print the reason if it cannot start."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        settings = load_settings()
        uvloop.run(serve(settings))
    except KeyboardInterrupt:
        return 130
    except AitneError as error:
        sys.stderr.write(f"aitne api: {error.message}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
