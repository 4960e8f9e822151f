"""``python -m aitne.api``: the API process, one worker, uvicorn."""

from __future__ import annotations

import errno
import gc
import logging
import os
import resource
import socket
import sys
from pathlib import Path

import uvicorn
import uvloop

from aitne.api.app import create_app
from aitne.api.streaming import OpenStreams
from aitne.bootstrap.platform import build
from aitne.core.errors import AitneError, SetupError
from aitne.core.settings import Settings, load_settings
from aitne.services.events import EventHub

STOP_WITHIN_S = 2
_BACKLOG = 2_048


class _Server(uvicorn.Server):
    """Ends what would not end by itself first, so that stopping does not wait for it."""

    def __init__(self, config: uvicorn.Config, streams: OpenStreams, events: EventHub) -> None:
        super().__init__(config)
        self._streams = streams
        self._events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._streams.close()
        await self._events.stop()
        await super().shutdown(sockets)


def listen(settings: Settings) -> socket.socket:
    """The portal's socket.

    Raises:
        SetupError: the port is taken, or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.bind, settings.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"Port {settings.port} on {settings.bind} is taken by another program. Stop that "
                "one, or start this platform with another port: `aitne up --port N`."
            ) from error
        raise SetupError(
            f"The portal cannot listen on {settings.bind}:{settings.port}: {error.strerror}. "
            "Set `bind` to an address of this machine, and `port` to one you may use."
        ) from error
    return listener


def listen_for_proxy(path: Path) -> socket.socket:
    """Return the socket of the reverse proxy, open to the platform's account and group.

    Raises:
        SetupError: it cannot be made.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            path.unlink()  # of a process that was killed
        before = os.umask(0o117)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        listener.close()
        raise SetupError(
            f"The socket {path} of the reverse proxy cannot be made: {error.strerror}. Set "
            "`proxy_socket` to a path in a folder of the platform's account."
        ) from error
    return listener


def allow_many_connections() -> None:
    """Use what the machine allows: a login shell's soft limit of 1,024 is too few for the open pages of many people."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(settings: Settings) -> None:
    """Run until a signal says stop."""
    allow_many_connections()
    listeners = [listen(settings)]
    if settings.proxy_socket is not None:
        listeners.append(listen_for_proxy(settings.proxy_socket))
    platform = build(settings)
    await platform.store.start()
    try:
        app = create_app(platform)
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="websockets-sansio",
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,  # most of it is small, and SSH's cannot be compressed
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=STOP_WITHIN_S,
            # Any local process could forge them; a site that names its proxies takes that on itself.
            proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        )
        # What was built by now lives as long as the process: the collector need not look at it.
        gc.collect()
        gc.freeze()
        await _Server(config, app.state.streams, platform.events).serve(sockets=listeners)
    finally:
        await platform.store.close()


def main() -> int:
    """Start, and say in a sentence why not if that cannot be."""
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
