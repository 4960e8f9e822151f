"""The controller process: ``python -m aitne.controller run | init | drain``.

``run`` is the controller itself. ``init`` prepares a data directory (database, first administrator,
the command line's token). ``drain`` cancels all live jobs and waits until they have ended.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys

from aitne.bootstrap.controller_parts import build_controller
from aitne.bootstrap.platform_services import build_platform
from aitne.controller.controller_lock import hold_lock, make_holder_name
from aitne.core.errors import AitneError
from aitne.core.settings import Settings
from aitne.local_system import held_process_start
from aitne.local_system.heartbeat import send_heartbeats
from aitne.local_system.settings_loader import load_settings
from aitne.services.users.isolation_warnings import list_isolation_warnings

DRAIN_TIMEOUT_S = 30.0


def main() -> int:
    """Parse the arguments, execute the command and return the exit status. Expected errors are
    printed as one sentence.
    """
    parser = argparse.ArgumentParser(prog="aitne.controller", description=__doc__)
    parser.add_argument("what", choices=("run", "init", "drain"))
    parser.add_argument("--administrator", help="with init: the first administrator's name")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("httpx", "alembic"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        settings = load_settings()
        if arguments.what == "init":
            return asyncio.run(_initialize_platform(settings, arguments.administrator))
        held_process_start.wait_for_release()
        work = {"run": _run_controller, "drain": _cancel_all_jobs}[arguments.what]
        return asyncio.run(work(settings))
    except AitneError as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    except KeyboardInterrupt:
        return 130


async def _initialize_platform(settings: Settings, administrator: str | None) -> int:
    platform = build_platform(settings)
    if held_process_start.is_held():
        platform.store.load_migrations()
    held_process_start.wait_for_release()
    await platform.store.start()
    try:
        await platform.first_run.prepare(administrator)
    finally:
        await platform.store.close()
    return 0


async def _run_controller(settings: Settings) -> int:
    """Run the controller until SIGTERM or SIGINT arrives; return the exit status."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    heartbeat = asyncio.create_task(send_heartbeats())
    try:
        await _run_until_stopped(settings, stop)
    finally:
        heartbeat.cancel()
    return 0


async def _cancel_all_jobs(settings: Settings) -> int:
    """Cancel every live job and run the controller until all have ended or the time limit is
    reached; return the exit status.
    """
    drained = asyncio.Event()
    platform = build_platform(settings)
    await platform.store.start()

    async def watch() -> None:
        for job in await platform.store.list_live_jobs():
            if job.array_job_id is None:
                await platform.store.request_cancel(job.id, platform.clock())
        while await platform.store.list_live_jobs():
            await platform.store.wait_for_change(0.5)
        drained.set()

    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S), asyncio.TaskGroup() as group:
            group.create_task(watch())
            group.create_task(_run_until_stopped(settings, drained))
    except TimeoutError:
        remaining = len(await platform.store.list_live_jobs())
        sys.stderr.write(f"{remaining} jobs have not ended within {DRAIN_TIMEOUT_S:.0f} s.\n")
        return 1
    finally:
        await platform.store.close()
    return 0


async def _run_until_stopped(settings: Settings, stop: asyncio.Event) -> None:
    holder = make_holder_name()
    parts = build_controller(settings, holder=holder)
    lock = settings.run_dir / "controller.lock"
    # With a shared scheduler a second controller may run, which waits for the lease.
    with hold_lock(lock, holder, exclusive=not parts.scheduler.capabilities.shared) as previous:
        await parts.store.start()
        if previous is not None:
            await parts.controller.end_lease_of(previous)
        notes = [
            *await parts.scheduler.start(),
            *await list_isolation_warnings(parts.store, settings),
        ]
        for note in notes:
            logging.getLogger("aitne.controller").warning("%s", note)
        whole = settings.notes_file.with_suffix(".new")
        whole.write_text("".join(f"{note}\n" for note in notes))
        whole.replace(settings.notes_file)
        work = asyncio.create_task(parts.controller.run())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
        finally:
            work.cancel()
            stopped.cancel()
            await asyncio.gather(work, stopped, return_exceptions=True)
            await parts.controller.release()
            await parts.scheduler.close()
            await parts.close_hub()
            await parts.store.close()


if __name__ == "__main__":
    sys.exit(main())
