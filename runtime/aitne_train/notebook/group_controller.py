"""Controller of a rank group: ipyparallel's controller with the state of the group.

The engine of rank 0 forks it before it imports anything large. It lives as long as the group, writes
the files by which engines and kernels connect, passes signals to the monitors, measures how long the
group has been idle, and announces to kernels which rank has ended and when the group will end.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aitne_train.launcher import own_addresses
from aitne_train.notebook import ipyparallel_fast_import, rank_group_connection_files
from aitne_train.notebook.group_controller_state import GroupSettings, GroupState

_PERIOD_MS = 500
_MISSED = 40
"""Heartbeats that an engine may miss: its node counts as lost after 20 s."""
_TICK_MS = 500
_REGISTER_S = 600
_LAST_S = 5.0
"""Seconds after the end of rank 0 within which the other ranks have ended too."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def find_own_address(environ: Mapping[str, str]) -> str:
    """Return the IPv4 address under which other nodes reach this one.

    It is that of ``AITNE_NETWORK_INTERFACE`` if that is set, or else the first one that is not a
    loopback address. Raises ``LaunchError`` if this node does not have the chosen interface.
    """
    for address in own_addresses.own_addresses(0, environ, 2):
        host = own_addresses.split_address(address.removesuffix(":0") + ":1")[0]
        if host.replace(".", "").isdigit():
            return host
    return own_addresses.LOCAL


def run_controller(settings: GroupSettings) -> None:
    """Run the controller until all ranks of the group have ended."""
    os.umask(0o077)
    logging.disable(logging.WARNING)  # the log of the job is for its user
    parent = os.pidfd_open(os.getppid())
    # Its helpers end with it, however it ends; without this, those of a killed controller would stay.
    libc = ctypes.CDLL(None)
    os.register_at_fork(after_in_child=lambda: libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL))
    multiprocessing.set_start_method("fork", force=True)
    private = Path(tempfile.mkdtemp(prefix="aitne-notebook-"))
    try:
        _create_controller(settings, private, parent)
    finally:
        rank_group_connection_files.remove_folder(settings.folder)
        shutil.rmtree(private, ignore_errors=True)


def _create_controller(settings: GroupSettings, private: Path, parent: int) -> None:
    ipyparallel_fast_import.import_without_clusters()
    from ipyparallel.controller import app as module
    from ipyparallel.controller.hub import Hub
    from jupyter_client.session import DELIM
    from tornado.ioloop import PeriodicCallback
    from traitlets.config import Config

    from aitne_train.notebook import heart_monitor

    class RankHub(Hub):
        """ipyparallel's hub, which forwards its events to the state of the group."""

        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.group = GroupState(settings, self, private)
            self.query_handlers.update(self.group.list_handlers())

        def dispatch_monitor_traffic(self, message: list[Any]) -> None:
            """Process a message from the task queues; the first message of a socket is ignored."""
            if message[1] != DELIM:
                super().dispatch_monitor_traffic(message)

        def monitor_iopub_message(self, topics: list[bytes], message: Any) -> None:
            """Process a status message of an engine. Other output is ignored to save time."""
            if topics[0].endswith(b".status"):
                self.group.record_activity(self.session.deserialize(message, content=True))

        def _save_engine_state(self) -> None:
            """Do nothing, because a controller is never restarted from a saved state."""

        def finish_registration(self, heart: bytes) -> None:
            super().finish_registration(heart)
            self.group.handle_registrations()

        def unregister_engine(self, ident: Any, msg: Any) -> None:
            super().unregister_engine(ident, msg)
            self.group.handle_lost_heartbeat(msg["content"]["id"])

    class Controller(module.IPController):
        """ipyparallel's controller, which ignores signals and runs until all ranks have ended."""

        def construct_url(self, kind: str, channel: str, index: Any = None) -> str:
            # As it comes, it binds ipc://PATH-N, but clients of a monitor connect to ipc://PATH:N.
            info = getattr(self, f"{kind}_info")
            port = info[channel] if index is None else info[channel][index]
            return f"{info['interface']}:{port}"

        def init_signal(self) -> None:
            # Ranks get these signals too; it ends when they have ended.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT):
                signal.signal(number, signal.SIG_IGN)

        def save_connection_dict(self, name: str, content: dict[str, Any]) -> None:
            if name == self.client_json_file:
                self.hub.group.client = content
            else:
                rank_group_connection_files.write_file(
                    settings.folder, rank_group_connection_files.ENGINE, content
                )

        def cleanup_connection_files(self) -> None:
            """Do nothing, because ``run_controller`` removes the folder with the files."""

        def end(self) -> None:
            logging.disable()  # it reports the end of its helpers
            self.terminate_children()
            self.loop.stop()

    module.Hub = RankHub
    module.IPController = Controller
    heart_monitor.install_heart_monitor(settings.size)
    address = find_own_address(os.environ)
    app = Controller.instance()
    # Not an argument, which every account of the node could read.
    app.update_config(Config({"Session": {"key": os.urandom(32).hex().encode()}}))
    app.initialize(
        [
            f"--profile-dir={private / 'profile'}",
            "--IPController.enable_curve=True",
            f"--IPController.engine_ip={address}",
            f"--IPController.client_ip={address}",
            f"--IPController.location={address}",
            "--IPController.monitor_transport=ipc",
            f"--IPController.monitor_ip={private / 'm'}",
            "--nodb",
            "--TaskScheduler.scheme_name=none",
            # A busy node may take longer than 30 s; an engine that was given up would never be back.
            f"--IPController.registration_timeout={_REGISTER_S}",
            f"--HeartMonitor.period={_PERIOD_MS}",
            f"--HeartMonitor.max_heartmonitor_misses={_MISSED}",
        ]
    )
    group = app.hub.group
    group.end = app.end
    group.handle_registrations()
    gone_at: float | None = None

    def tick() -> None:
        nonlocal gone_at
        if gone_at is None and select.select([parent], [], [], 0)[0]:
            gone_at = time.monotonic()
        if gone_at is not None and time.monotonic() - gone_at > _LAST_S:
            app.end()
        group.tick()

    ticks = PeriodicCallback(tick, _TICK_MS)
    ticks.start()
    app.start()
