"""Batch script of a job: complete, readable, and without any text that a user wrote.

Commands, names, parameters and variables are in ``agent.json`` in the same folder. The script
contains only UUIDs, numbers, words that were checked here, and quoted paths of the platform.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from uuid import UUID

from aitne.core.byte_size_format import describe_bytes
from aitne.core.jobs.module_shell_functions import FUNCTIONS
from aitne.core.models.base import PROJECT_NAME
from aitne.core.models.resources import MemoryRequest, Resources
from aitne.core.units import GPU_TYPE, GRES_KIND, format_duration

_PROJECT = re.compile(PROJECT_NAME)
_GRES = re.compile(rf"(?:{GRES_KIND}:)?{GPU_TYPE}")
_PLACEMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,\[\] -]*")
_DEFAULT = " (the scheduler's default)"
_ARRAY = re.compile(r"[0-9,%:-]{1,4000}")

_TEMPLATE = """\
#!/bin/bash
# Aitne {what} {job_id}, attempt {attempt}
#
{facts}
#
# What it runs - commands, variables, its name - lies in agent.json in the job's folder;
# nothing that a user wrote is part of this script.

export AITNE_JOB_ID={job_id}
{session}export AITNE_ATTEMPT={attempt}
export AITNE_PROJECT={project}
export AITNE_JOB_DIR={job_dir}
export AITNE_NODES={nodes}
export AITNE_NODE_RANK="${{SLURM_NODEID:-0}}"
export AITNE_GPUS_PER_NODE={gpus}

# Where the ranks of a distributed program meet: the first node of the allocation
# ("gpu[03-05,9],n1" begins with gpu03). The agent adds MASTER_PORT, which it holds.
hosts="${{SLURM_JOB_NODELIST:-localhost}}"
first=
while [[ $hosts =~ ^([^][,]*)\\[([0-9]+)[^]]*\\](.*)$ ]]; do
  first+="${{BASH_REMATCH[1]}}${{BASH_REMATCH[2]}}"
  hosts="${{BASH_REMATCH[3]}}"
done
export MASTER_ADDR="${{MASTER_ADDR:-$first${{hosts%%,*}}}}"
unset hosts first

# What a login shell defines for bash programs, where the node has it: module, ml and conda.
{functions}
exec {agent} "$AITNE_JOB_DIR"
"""


def render_script(
    *,
    job_id: UUID,
    attempt: int,
    session: bool,
    project: str,
    resources: Resources,
    time_limit_s: int,
    array: str | None,
    job_dir: str,
    agent: Sequence[str],
    placement: Mapping[str, str] | None = None,
    default_time_limit: bool = False,
) -> str:
    """Return the batch script of one attempt. For an array, ``job_id`` is the ID of the array job.

    With ``default_time_limit`` the scheduler decides on the time limit, presumably
    ``time_limit_s``. ``agent`` is the command that starts the agent; the job folder is appended as its last argument.
    ``placement`` maps names to values that are written into the comment at the top of the script;
    None: none.

    Raises:
        ValueError: a value contains characters that are not permitted in the script.
    """
    summary_fields = {
        "nodes": _describe_resources(resources),
        **{name: _check_text(_PLACEMENT, text) for name, text in (placement or {}).items()},
        "time limit": format_duration(time_limit_s) + (_DEFAULT if default_time_limit else ""),
        "project": _check_text(_PROJECT, project),
    }
    if array is not None:
        summary_fields["tasks"] = _check_text(_ARRAY, array)
    return _TEMPLATE.format(
        what="session" if session else "job",
        job_id=job_id,
        attempt=int(attempt),
        facts="\n".join(f"#   {name:<11} {text}" for name, text in summary_fields.items()),
        session=f"export AITNE_SESSION_ID={job_id}\n" if session else "",
        project=_check_text(_PROJECT, project),
        job_dir=shlex.quote(job_dir),
        nodes=resources.nodes,
        gpus=resources.gpu.count,
        functions=FUNCTIONS.strip("\n"),
        agent=shlex.join(agent),
    )


def _check_text(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(f"{text!r} cannot stand in a batch script")
    return text


def _describe_memory(resources: Resources) -> str:
    if resources.memory_request is MemoryRequest.ALL:
        return "all memory"
    if not resources.memory_bytes:
        return f"memory{_DEFAULT}"
    suffix = _DEFAULT if resources.memory_request is MemoryRequest.DEFAULT else ""
    return f"{describe_bytes(resources.memory_bytes)} of memory{suffix}"


def _describe_resources(resources: Resources) -> str:
    tasks = resources.tasks_per_node
    parts = [
        *([] if tasks is None else ["1 task" if tasks == 1 else f"{tasks} tasks"]),
        "1 CPU" if resources.cpu == 1 else f"{resources.cpu} CPUs",
        _describe_memory(resources),
    ]
    if count := resources.gpu.count:
        kind = f"{_check_text(_GRES, resources.gpu.type)} " if resources.gpu.type else ""
        parts.append(f"{count} {kind}GPU{'' if count == 1 else 's'}")
    parts += [f"{count} {_check_text(_GRES, name)}" for name, count in resources.gres.items()]
    return f"{resources.nodes}, {'on it' if resources.nodes == 1 else 'on each'} {', '.join(parts)}"
