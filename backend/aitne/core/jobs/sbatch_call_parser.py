"""Command line and environment of sbatch, whose options are added to those of the script."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aitne.core.jobs.sbatch_option_parser import (
    COMMAND_LINE,
    SbatchOption,
    make_option_from_variable,
    parse_options,
)
from aitne.core.jobs.sbatch_options import KNOWN

VARIABLES: Mapping[str, str] = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_ACCTG_FREQ": "acctg-freq",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_BATCH": "batch",
    "SBATCH_CLUSTER_CONSTRAINT": "cluster-constraint",
    "SLURM_CLUSTERS": "clusters",
    "SBATCH_CLUSTERS": "clusters",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_CONTAINER": "container",
    "SBATCH_CONTAINER_ID": "container-id",
    "SBATCH_CORE_SPEC": "core-spec",
    "SBATCH_CPU_FREQ_REQ": "cpu-freq",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_DELAY_BOOT": "delay-boot",
    "SBATCH_DISTRIBUTION": "distribution",
    "SBATCH_ERROR": "error",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_EXPORT": "export",
    "SBATCH_GET_USER_ENV": "get-user-env",
    "SBATCH_GPU_BIND": "gpu-bind",
    "SBATCH_GPU_FREQ": "gpu-freq",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_GRES_FLAGS": "gres-flags",
    "SLURM_HINT": "hint",
    "SBATCH_HINT": "hint",
    "SBATCH_INPUT": "input",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_BIND": "mem-bind",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NETWORK": "network",
    "SBATCH_NO_KILL": "no-kill",
    "SBATCH_NO_REQUEUE": "no-requeue",
    "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_OUTPUT": "output",
    "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_PARTITION": "partition",
    "SBATCH_POWER": "power",
    "SBATCH_PROFILE": "profile",
    "SBATCH_QOS": "qos",
    "SBATCH_REQ_SWITCH": "switches",
    "SBATCH_REQUEUE": "requeue",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_SIGNAL": "signal",
    "SBATCH_SPREAD_JOB": "spread-job",
    "SBATCH_THREAD_SPEC": "thread-spec",
    "SBATCH_THREADS_PER_CORE": "threads-per-core",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_TRES_BIND": "tres-bind",
    "SBATCH_TRES_PER_TASK": "tres-per-task",
    "SBATCH_USE_MIN_NODES": "use-min-nodes",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes",
    "SBATCH_WCKEY": "wckey",
}
"""Environment variables that sbatch documents as options, with the option of each; of two for one
option the later counts.
"""
WRAP = "wrap"


@dataclass(frozen=True, slots=True)
class SbatchCall:
    """Command line and environment of sbatch."""

    options: tuple[SbatchOption, ...] = ()
    """Options in the order in which they take effect: those of the environment first."""
    script: str | None = None
    """Path of the batch script; None: it is read from the standard input, or ``wrap`` is set."""
    arguments: tuple[str, ...] = ()
    """Arguments of the script."""
    wrap: str | None = None
    """Command of ``--wrap``, which is run instead of a script; None: there is none."""

    @property
    def wrapped_script(self) -> str | None:
        """Return the batch script that sbatch makes of ``--wrap``; None without it."""
        return None if self.wrap is None else f"#!/bin/sh\n\n{self.wrap}\n"


def read_call(words: Sequence[str], environment: Mapping[str, str]) -> SbatchCall:
    """Return what sbatch would take from its command line (``words``, without ``sbatch``) and from
    the variables of its environment.

    Raises ``ValueError`` for a command line that sbatch refuses.
    """
    rest = deque(words)
    own = [*parse_options(COMMAND_LINE, rest, KNOWN)]
    commands = [option.value or "" for option in own if option.name == WRAP]
    if commands and rest:
        raise ValueError("command line: with --wrap sbatch takes no script and no arguments")
    variables = [
        make_option_from_variable(COMMAND_LINE, name, environment[variable], variable)
        for variable, name in VARIABLES.items()
        if variable in environment
    ]
    return SbatchCall(
        options=(*variables, *(option for option in own if option.name != WRAP)),
        script=rest[0] if rest else None,
        arguments=tuple(rest)[1:],
        wrap=commands[-1] if commands else None,
    )
