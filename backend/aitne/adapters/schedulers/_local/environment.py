"""Environment of a job's script: the variables of a login and those that Slurm sets, without
variables of the platform itself.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping, Sequence
from datetime import datetime

from aitne.adapters.schedulers._local.node_resources import Grant
from aitne.core.ports.scheduler import SubmitRequest
from aitne_train.topology.hostlist import compress_hostlist

PASSED_ON = (
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "PATH",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "XDG_RUNTIME_DIR",
)
"""Variables of a login environment that jobs inherit from the platform's; LC_* are inherited, too.
"""

LOCAL_NODES = "AITNE_LOCAL_NODES"


_OF_THE_MACHINE = ("LANG", "LANGUAGE", "TZ")


def base_environment(source: Mapping[str, str], account: str | None = None) -> dict[str, str]:
    """Return the variables of the platform's environment that jobs inherit, completed from the
    password database.

    ``account``: the job's account; None: the platform's own. A job of another account inherits only
    the language and the time zone.

    Raises:
        KeyError: there is no such account.
    """
    person = pwd.getpwuid(os.getuid()) if account is None else pwd.getpwnam(account)
    passed_on = PASSED_ON if account is None else _OF_THE_MACHINE
    variables = {
        name: value for name, value in source.items() if name in passed_on or name.startswith("LC_")
    }
    return {
        "HOME": person.pw_dir,
        "USER": person.pw_name,
        "LOGNAME": person.pw_name,
        "SHELL": person.pw_shell or "/bin/sh",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **variables,
    }


def slurm_variables(
    request: SubmitRequest,
    *,
    job_number: int,
    grants: Sequence[Grant],
    restart_count: int,
    started: datetime,
    cluster: str,
    array: tuple[int, int, Sequence[int]] | None,
    has_gpus: bool,
) -> dict[str, str]:
    """Return the variables that Slurm sets for a batch script
    (https://slurm.schedmd.com/sbatch.html).

    Args:
        request: submission of the job.
        job_number: number of the job or task.
        grants: resources allocated on each node.
        restart_count: number of requeues.
        started: time at which the run starts.
        cluster: name of the cluster.
        array: ID of the array, index of this task and all indices; None: the job is not an array.
        has_gpus: whether the machine has GPUs. If it has, CUDA_VISIBLE_DEVICES of a job without
            GPUs is empty, so that the job cannot use them.
    """
    nodes = compress_hostlist([grant.node for grant in grants])
    resources = request.resources
    count = len(grants)
    per_node = str(resources.cpu) if count == 1 else f"{resources.cpu}(x{count})"
    start = int(started.timestamp())
    variables = {
        "SLURM_JOB_ID": str(job_number),
        "SLURM_JOBID": str(job_number),
        "SLURM_JOB_NAME": remove_unusable_characters(request.name),
        "SLURM_CLUSTER_NAME": cluster,
        "SLURM_SUBMIT_DIR": request.job_dir,
        "SLURM_RESTART_COUNT": str(restart_count),
        "SLURM_JOB_NUM_NODES": str(count),
        "SLURM_NNODES": str(count),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURMD_NODENAME": grants[0].node,
        # All nodes are this machine, whatever their names.
        "MASTER_ADDR": "127.0.0.1",
        "SLURM_CPUS_ON_NODE": str(resources.cpu),
        "SLURM_JOB_CPUS_PER_NODE": per_node,
        "SLURM_MEM_PER_NODE": str(resources.memory_bytes >> 20),
        "SLURM_JOB_START_TIME": str(start),
        "SLURM_JOB_END_TIME": str(start + request.time_limit_s),
    }
    tasks = resources.tasks_per_node
    # Open MPI takes its slots from it, and does not start without it where SLURM_JOB_ID is set.
    variables["SLURM_TASKS_PER_NODE"] = f"{tasks or 1}" + ("" if count == 1 else f"(x{count})")
    if tasks is not None:
        variables |= {"SLURM_NTASKS": str(tasks * count), "SLURM_NTASKS_PER_NODE": str(tasks)}
    if resources.cpus_per_task is not None:
        variables["SLURM_CPUS_PER_TASK"] = str(resources.cpus_per_task)
    if count > 1:
        # For the agent of a distributed job, which starts one for each node here.
        variables[LOCAL_NODES] = json.dumps(
            [
                {"node": grant.node, "gpus": list(grant.gpus) if has_gpus else None}
                for grant in grants
            ]
        )
    if array is not None:
        array_id, index, indices = array
        variables |= {
            "SLURM_ARRAY_JOB_ID": str(array_id),
            "SLURM_ARRAY_TASK_ID": str(index),
            "SLURM_ARRAY_TASK_COUNT": str(len(indices)),
            "SLURM_ARRAY_TASK_MIN": str(min(indices)),
            "SLURM_ARRAY_TASK_MAX": str(max(indices)),
        }
    if has_gpus:
        devices = ",".join(map(str, grants[0].gpus))
        variables["CUDA_VISIBLE_DEVICES"] = devices
        if devices:
            variables["SLURM_JOB_GPUS"] = devices
            # By default CUDA numbers GPUs by speed, and NVML by bus ID.
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
            variables["SLURM_GPUS_ON_NODE"] = str(len(grants[0].gpus))
    return variables


def remove_unusable_characters(text: str) -> str:
    """Return the text without characters that no environment can hold: NUL and unpaired
    surrogates.
    """
    return text.replace("\0", "").encode("utf-8", "replace").decode()
