"""Recovery of every task's state from its files after a restart."""

from __future__ import annotations

import shutil

from aitne.adapters.schedulers._local import runner_launcher
from aitne.adapters.schedulers._local.job_index import JobIndex, LocalTask, TaskPhase
from aitne.adapters.schedulers._local.job_records import Records
from aitne.adapters.schedulers._local.node_resources import Grant


def recover_states(records: Records, index: JobIndex) -> None:
    """Set every task in ``index`` to the state that its files record.

    A task whose last run was started becomes ``RUNNING`` if a runner claimed the run (the runner
    may have ended since), else ``SETTLING``. A run that no runner claimed was never started: it is
    discarded, and its task is pending.

    Raises:
        OSError: the files cannot be read, or the disk is full.
    """
    for task in index.tasks():
        _recover_state(records, task)


def _recover_state(records: Records, task: LocalTask) -> None:
    number = task.job.record.number
    state = records.read_state(number, task.index)
    task.restart_count, task.runs = state.restart_count, state.closed_runs
    if state.held is not None:
        task.held = state.held
    if state.ending is not None:
        task.phase, task.ending = TaskPhase.ENDED, state.ending
        return
    run_dir = records.run_dir(number, task.index, state.closed_runs)
    if not run_dir.is_dir():
        return
    task.identity = runner_launcher.read_identity(run_dir)
    if task.identity is None and runner_launcher.close_unclaimed_run(run_dir):
        shutil.rmtree(run_dir)
        return
    task.identity = task.identity or runner_launcher.read_identity(run_dir)
    task.runs += 1
    task.phase = TaskPhase.SETTLING if task.identity is None else TaskPhase.RUNNING
    launch = records.read_launch(run_dir)
    if launch is not None:
        task.grants = tuple(Grant(grant.node, grant.gpus) for grant in launch.grants)
    control = runner_launcher.read_control(run_dir)
    task.cancelled = bool(control.get("cancel", False))
    limit = control.get("time_limit_s")
    task.time_limit_s = int(limit) if isinstance(limit, int | float) else task.time_limit_s
