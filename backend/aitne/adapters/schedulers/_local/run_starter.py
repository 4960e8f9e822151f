"""Start of a task's run: determines account, environment and folder, and starts the runner."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

from aitne.adapters.schedulers._local import runner_launcher
from aitne.adapters.schedulers._local.account_switch import JobAccount
from aitne.adapters.schedulers._local.environment import base_environment, slurm_variables
from aitne.adapters.schedulers._local.job_index import LocalTask
from aitne.adapters.schedulers._local.job_records import LaunchFile, Records, RunGrant
from aitne.adapters.unix_account_mapping import UnixUser
from aitne.core.errors import NotAllowed
from aitne.core.jobs.job_folder_layout import log_file_name


class RunStarter:
    """Starter of runs of the ``local`` scheduler; it is thread-safe.

    ``permitted`` returns the Unix user of a job's account, or raises ``NotAllowed``. If it is None,
    all jobs run under the platform's own account.
    """

    def __init__(
        self,
        records: Records,
        *,
        cluster: str,
        has_gpus: bool,
        grace_s: float,
        permitted: Callable[[str], UnixUser] | None,
    ) -> None:
        self._records = records
        self._cluster = cluster
        self._has_gpus = has_gpus
        self._grace_s = grace_s
        self._permitted = permitted

    @property
    def uses_user_accounts(self) -> bool:
        """Return True if jobs run under the accounts of their users."""
        return self._permitted is not None

    def start(
        self, task: LocalTask, run: int, *, time_limit_s: int, started: datetime
    ) -> runner_launcher.ProcessIdentity:
        """Start a run with the resources that its task was allocated (its grants); return the
        identity of its runner.

        Raises:
            OSError: the run could not be started; no process of the task runs.
        """
        record = task.job.record
        request = record.request
        account, environment = self._find_account(request.account)
        indices = record.indices
        slurm = slurm_variables(
            request,
            job_number=task.number,
            grants=task.grants,
            restart_count=task.restart_count,
            started=started,
            cluster=self._cluster,
            array=None
            if indices is None or task.index is None
            else (record.number, task.index, indices),
            has_gpus=self._has_gpus,
        )
        grants = tuple(RunGrant(node=grant.node, gpus=grant.gpus) for grant in task.grants)
        folder = self._records.create_run(record.number, task.index, run, LaunchFile(grants=grants))
        return runner_launcher.launch_runner(
            folder,
            job_dir=request.job_dir,
            environment=environment | slurm,
            log=log_file_name(task.index),
            time_limit_s=time_limit_s,
            # All nodes are this machine: the sum of its resources on all of them.
            memory_bytes=request.resources.memory_bytes * len(task.grants),
            grace_s=self._grace_s,
            account=account,
        )

    def _find_account(self, account: str | None) -> tuple[JobAccount | None, dict[str, str]]:
        """Return the account under which the job runs (None: the platform's own account) and the
        job's environment variables. Raises ``OSError`` if jobs may not run under the account now.
        """
        if self._permitted is None:
            return None, base_environment(os.environ)
        try:
            user = self._permitted(account or "")
            environment = base_environment(os.environ, user.name)
        except NotAllowed as error:
            raise OSError(error.message.removesuffix(".")) from error
        except KeyError as error:
            raise OSError(f"This machine has no Unix account {account}") from error
        return JobAccount(user.uid, user.gid, user.groups), environment
