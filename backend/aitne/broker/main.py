"""Start of the broker: command line, construction of its parts, and an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from aitne import __version__
from aitne.adapters.accounting.none import NoAccounting
from aitne.adapters.broker_scheduler import FilesByVerb
from aitne.adapters.command.as_user import AsUserCommand
from aitne.adapters.unix_account_mapping import unix_user
from aitne.bootstrap.adapters import (
    make_scheduler_accounting,
    make_scheduler_attacher,
    make_scheduler_outside_jobs,
    make_storages,
)
from aitne.broker.audit_log import BrokerAuditLog
from aitne.broker.config import BrokerConfig, load_config
from aitne.broker.log_path_signature import LogSeal
from aitne.broker.per_user_helpers import Helpers
from aitne.broker.request_guard import Guard
from aitne.broker.server import BrokerServer, lock_socket, resolve_peer_uids
from aitne.broker.verb_handlers import Handlers, check_handlers
from aitne.broker.zygote import Zygote
from aitne.core.broker.protocol_versions import Welcome
from aitne.core.errors import AitneError, NotAllowed, SetupError
from aitne.core.ports.scheduler import SCHEDULERS, Scheduler
from aitne.core.ports.scheduler_dependencies import Tools
from aitne.local_system.heartbeat import send_heartbeats
from aitne.local_system.systemd_notification import notify_systemd

_LOG = logging.getLogger("aitne.broker")
_HOUSEKEEPING_S = 5.0
MakeScheduler = Callable[..., Scheduler]


def main(make: MakeScheduler | None = None) -> int:
    """Parse the arguments and run the broker until it is stopped; return the exit status. Expected
    errors are printed as one sentence.

    ``make`` creates the scheduler adapter in tests.
    """
    parser = argparse.ArgumentParser(
        prog="aitne-broker", description="Execute requests of the platform as users."
    )
    parser.add_argument("--config", type=Path, default=Path("/etc/aitne/broker.toml"))
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return _run_broker(load_config(arguments.config), make)
    except AitneError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1


def _run_broker(config: BrokerConfig, make: MakeScheduler | None) -> int:
    if os.geteuid() != 0:
        raise SetupError(
            "The broker acts as other accounts, which requires root. Start it as root (its unit is "
            "in docs/howto/slurm.md), or leave broker.socket unset."
        )
    os.umask(0o022)
    os.chdir("/")
    check_handlers()
    make = make or SCHEDULERS.get(config.scheduler)
    lock = lock_socket(config.socket)
    # Before the first thread, and before the adapter reads any key: its children have this memory.
    # Plug-ins are loaded here too: a helper cannot read them any more.
    zygote = Zygote(make_storages(config.storage))
    try:
        return asyncio.run(_serve_until_stopped(config, make, zygote))
    finally:
        zygote.close()
        os.close(lock)


async def _serve_until_stopped(config: BrokerConfig, make: MakeScheduler, zygote: Zygote) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    heartbeat = asyncio.create_task(send_heartbeats())
    guard = Guard(config)
    helpers = Helpers(zygote, guard)
    audit = BrokerAuditLog(config.audit)
    audit.start()
    command = _make_command(config, guard)
    settings = config.to_settings()
    tools = Tools(command, FilesByVerb(helpers))
    scheduler = make(settings, tools)
    handlers = Handlers(
        config,
        guard,
        scheduler,
        make_scheduler_accounting(scheduler, settings, command) or NoAccounting(scheduler.name),
        helpers,
        make_scheduler_attacher(scheduler, settings, tools),
        make_scheduler_outside_jobs(scheduler, settings, tools),
        LogSeal.from_file(config.audit.with_name("outside-logs.key")),
    )

    def welcome(protocol: int) -> Welcome:
        return Welcome(
            protocol=protocol,
            release=__version__,
            scheduler=scheduler.name,
            settle_s=scheduler.settle_s,  # the adapter learns it from Slurm, perhaps late
        )

    server = BrokerServer(config.socket, resolve_peer_uids(config.peers), handlers, audit, welcome)
    try:
        handlers.start_notes = await scheduler.start()
        for note in handlers.start_notes:
            _LOG.warning("%s", note)
        await server.start()
        audit.write_entry(verb="start", outcome="done", release=__version__)
        _LOG.info("serving %s", config.socket)
        _notify_systemd("READY=1")
        await _run_housekeeping(stop, helpers, zygote)
    finally:
        heartbeat.cancel()
        await server.close()
        await scheduler.close()
        await helpers.close()
        audit.write_entry(verb="stop", outcome="done")
        audit.close()
    return 0


async def _run_housekeeping(stop: asyncio.Event, helpers: Helpers, zygote: Zygote) -> None:
    while not stop.is_set():
        _notify_systemd("WATCHDOG=1")
        try:
            async with asyncio.timeout(_HOUSEKEEPING_S):
                await stop.wait()
        except TimeoutError:
            await helpers.close_idle()
        if zygote.broken:
            raise SetupError(
                "The process that helpers are forked from has ended: restart the broker."
            )


def _notify_systemd(state: str) -> None:
    try:
        notify_systemd(state)
    except OSError as error:
        _LOG.warning("the service manager did not accept %s: %s", state, error)


def _make_command(config: BrokerConfig, guard: Guard) -> AsUserCommand:
    try:
        operator = None if config.slurm.operator is None else unix_user(config.slurm.operator)
    except NotAllowed as error:
        raise SetupError(f"slurm.operator: {error.message}") from error
    return AsUserCommand(guard.check_account, operator, config.slurm.command_prefix)
