"""Terms of Slurm and of other job descriptions, with the corresponding field of the job file."""

from __future__ import annotations

JOB_FILE_FIELDS = {
    "account": "project",
    "array_tasks": "array",
    "chdir": "workdir",
    "cmd": "commands",
    "command": "commands",
    "constraint": "slurm.constraint",
    "container_image": "image",
    "cpus": "resources.cpu",
    "cpus_per_task": "resources.cpu",
    "cwd": "workdir",
    "dependency": "after",
    "depends_on": "after",
    "distribution": "placement.order",
    "environ": "env",
    "environment_variables": "env",
    "exclude": "placement.exclude",
    "exclusive": "slurm.exclusive",
    "export": "env",
    "gpu": "resources.gpu",
    "gpus": "resources.gpu",
    "gpus_per_node": "resources.gpu",
    "gres": "resources.gpu",
    "job_name": "name",
    "mem": "resources.memory",
    "memory": "resources.memory",
    "needs": "after",
    "nodelist": "placement.nodes",
    "nodes": "resources.nodes",
    "ntasks": "distributed.ranks_per_node",
    "ntasks_per_node": "distributed.ranks_per_node",
    "partition": "slurm.partition",
    "qos": "slurm.qos",
    "requeue": "retry",
    "reservation": "slurm.reservation",
    "retries": "retry",
    "run": "commands",
    "script": "commands",
    "switches": "placement.compact",
    "time": "max_duration",
    "time_limit": "max_duration",
    "timeout": "max_duration",
    "walltime": "max_duration",
    "working_dir": "workdir",
    "working_directory": "workdir",
    "wrap": "commands",
}
"""Field of the job file by term, in lower case and with underscores."""
SBATCH_LETTERS = {
    "A": "project",
    "C": "slurm.constraint",
    "D": "workdir",
    "G": "resources.gpu",
    "J": "name",
    "N": "resources.nodes",
    "a": "array",
    "c": "resources.cpu",
    "m": "placement.order",
    "n": "distributed.ranks_per_node",
    "p": "slurm.partition",
    "q": "slurm.qos",
    "t": "max_duration",
    "w": "placement.nodes",
    "x": "placement.exclude",
}
"""Field of the job file by short option of sbatch."""


def find_job_file_field(word: str) -> str | None:
    """Return the job file's field that corresponds to an option of sbatch (``--time``, ``-t``) or
    to a field name of other systems' job descriptions (``walltime``); None if no field corresponds
    to it.
    """
    if len(word.lstrip("-")) == 1:
        return SBATCH_LETTERS.get(word.lstrip("-"))
    return JOB_FILE_FIELDS.get(word.lstrip("-").replace("-", "_").lower())
