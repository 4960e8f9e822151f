"""``python -m aitne_train.notebook.engine``: one rank of a rank group, which executes cells.

The engine is ipyparallel's, with the rank as its number. That of rank 0 forks the controller of the
group first, and the first one of each node the node's monitor.
"""

from __future__ import annotations

import os
import platform
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aitne_train.launcher.rank_detection import RankTopology, detect_topology
from aitne_train.launcher.visible_gpus import parse_visible_gpus
from aitne_train.notebook import (
    group_controller,
    ipyparallel_fast_import,
    node_monitor,
    rank_group_connection_files,
    rank_groups,
)
from aitne_train.notebook.group_controller_state import GroupSettings

_START_S = 120.0
_MISSED = 20
"""Heartbeats of the controller, of about a second each, after which an engine without them ends."""


def main() -> None:
    """Run the engine of this rank. Does not return: exits with code 0 when the rank is released."""
    folder = rank_group_connection_files.find_own_folder(os.environ)
    if folder is None:
        sys.exit(
            f"aitne: {rank_group_connection_files.FOLDER} must name the folder of the rank group outside a job"
        )
    try:
        _run_engine(folder)
    except rank_group_connection_files.ConnectionFilesError as error:
        sys.exit(f"aitne: {error}")


def _run_engine(folder: Path) -> None:
    world = detect_topology(os.environ)
    node = int(os.environ.get("AITNE_NODE_RANK", world.cross_rank))
    if world.rank == 0:
        rank_group_connection_files.create_folder(folder)
        idle_s, session = (
            os.environ.get("AITNE_RANKS_IDLE_S"),
            os.environ.get(rank_group_connection_files.SESSION, ""),
        )
        settings = GroupSettings(
            folder.name, session, world.size, float(idle_s) if idle_s else None, folder
        )
        status = rank_group_connection_files.Status(folder.name, session, "starting", world.size, 0)
        rank_group_connection_files.write_status(folder, status)
        pid = _fork_child(lambda: group_controller.run_controller(settings))
    elif world.local_rank == 0:
        rank_group_connection_files.wait_for_file(
            folder, rank_group_connection_files.STATUS, _START_S
        )
    if world.local_rank == 0:
        _fork_child(lambda: node_monitor.run_monitor(folder, node, world.local_size))
    if world.rank == 0:
        log = os.dup(2)  # the engine will take descriptor 2 for the output of cells
        threading.Thread(
            target=_end_with_controller,
            args=(pid, log, folder),
            name="aitne-controller",
            daemon=True,
        ).start()
    # Nothing large was imported before the forks; the controller starts during these imports.
    ipyparallel_fast_import.import_without_clusters()
    ipyparallel_fast_import.import_without_debugger()
    from aitne_train.notebook import rank_kernel
    from aitne_train.notebook.output_limit import OutputLimit

    info = rank_group_connection_files.wait_for_file(
        folder, rank_group_connection_files.ENGINE, _START_S
    )
    node_monitor.register_engine(folder, node, _describe_rank(world))
    job_dir = os.environ.get("AITNE_JOB_DIR")
    outputs = Path(job_dir) / "outputs" if job_dir else folder.with_name(f"{folder.name}-outputs")
    limit = OutputLimit(world.rank, world.size, outputs)
    rank_kernel.serve_cells(
        world.rank, info, str(_write_profile(folder, world.rank)), limit, _MISSED
    )
    sys.stdout.flush()
    os._exit(0)


def _fork_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child process, and return the PID of the child. The child exits with
    code 0, or with code 1 if ``work`` raises an exception."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a child must not return into its parent's code
        os.write(2, f"aitne: {error!r}\n".encode())
    finally:
        os._exit(code)


def _end_with_controller(pid: int, log: int, folder: Path) -> None:
    """Wait until the controller has ended, then end this rank, which can no longer receive cells.

    Args:
        pid: PID of the controller.
        log: file descriptor for the message.
        folder: folder of the group, which is removed.
    """
    select.select([os.pidfd_open(pid)], [], [])
    rank_group_connection_files.remove_folder(folder)
    os.write(log, b"aitne: the controller of the rank group has ended; the group ends with it\n")
    os._exit(1)


def _describe_rank(world: RankTopology) -> dict[str, Any]:
    return {
        "rank": world.rank,
        "local_rank": world.local_rank,
        "device": _find_device(world),
        "started_at": time.time(),
        "python": platform.python_version(),
        "versions": rank_groups.list_versions(),
    }


def _find_device(world: RankTopology) -> str:
    """Return the index or UUID of the GPU that torch would select for this rank; empty if there is
    no GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(world.local_rank) if os.path.exists("/dev/nvidiactl") else ""
    devices = parse_visible_gpus(visible)
    return devices[world.local_rank % len(devices)] if devices else ""


def _write_profile(folder: Path, rank: int) -> Path:
    path = folder / f"profile-{rank}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


if __name__ == "__main__":
    main()
