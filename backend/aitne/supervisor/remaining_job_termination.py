"""Termination of jobs that a platform left running, after the platform itself has stopped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.local_system.state_file_reader import DamagedState
from aitne.supervisor.child_process import launch_process, open_log
from aitne.supervisor.process_account import ROOT, acting_as, become_account
from aitne.supervisor.supervisor_plan import (
    DRAIN_WITHIN_S,
    END_WITHIN_S,
    FILE,
    LIVE,
    SupervisorPlan,
    plan_dir,
)


def end_remaining_jobs(data_dir: Path, progress: Callable[[str], None]) -> bool:
    """End the jobs that the platform in ``data_dir`` left running. Returns False if there are none,
    or if they run on a cluster and continue.

    Raises:
        SetupError: the jobs have not ended, or only another account can end them.
    """
    live = data_dir / "run" / LIVE
    if not live.exists():
        return False
    plan = _read_plan(data_dir)
    if not plan.drain:
        return False
    progress("The platform is not running; ending the jobs that it left running.")
    try:
        with _run_broker(plan):
            process = subprocess.run(
                plan.drain,
                env=plan.base_env,
                cwd=data_dir,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=DRAIN_WITHIN_S,
                check=False,
                preexec_fn=None if plan.account is None else partial(become_account, plan.account),
            )
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"The jobs that the platform in {data_dir} left have not ended within "
            f"{DRAIN_WITHIN_S:.0f} s. Run `aitne up` and check them there."
        ) from error
    if process.returncode:
        last = process.stderr.strip().splitlines()[-3:]
        raise SetupError(
            f"The jobs that the platform in {data_dir} left could not be ended: {' '.join(last)}"
        )
    with acting_as(plan.account):
        live.unlink()
    return True


def _read_plan(data_dir: Path) -> SupervisorPlan:
    folder = plan_dir(data_dir)
    try:
        plan = SupervisorPlan.read(folder)
        # The plan names programs: root executes none that another account has named.
        if (folder / FILE).stat().st_uid != os.geteuid():
            raise PermissionError
        return plan
    except (FileNotFoundError, PermissionError) as error:
        raise SetupError(
            f"The platform in {data_dir} may have left jobs running, and {folder} does not tell this "
            "account how to end them. Use the account that started the platform."
        ) from error
    except DamagedState as error:
        raise SetupError(
            f"The platform in {data_dir} may have left jobs running, and {error}. `aitne up` writes the "
            "file anew; then `aitne down` ends them."
        ) from error


@contextmanager
def _run_broker(plan: SupervisorPlan) -> Iterator[None]:
    """Run the broker of the plan during the ``with`` block, because its jobs are ended through it.
    Does nothing if the plan has no broker.
    """
    brokers: list[subprocess.Popen[bytes]] = []
    try:
        for child in plan.children:
            if child.as_root:
                path = Path(plan.data_dir, "logs", f"{child.name}.log")
                with open_log(path, plan.account) as log:
                    brokers.append(launch_process(child.argv, child.env, Path("/"), log, (), ROOT))
        yield
    finally:
        for broker in brokers:
            broker.terminate()
            try:
                broker.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                broker.kill()
                broker.wait()
