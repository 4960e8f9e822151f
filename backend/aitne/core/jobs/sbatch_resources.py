"""Conversion of the nodes, tasks, CPUs, memory and GPUs of a batch script to the resources per node
of a job file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from aitne.core.jobs.sbatch_conversion_state import SbatchConversion
from aitne.core.jobs.sbatch_option_parser import SbatchOption, refuse_option
from aitne.core.models.resources import ALL, GpuRequest
from aitne.core.units import Gres, format_memory, parse_gres

_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}
_MEMORY_OPTIONS = ("mem", "mem-per-cpu", "mem-per-gpu")
_GPU_OPTIONS = {"gres": "node", "gpus-per-node": "node", "gpus-per-task": "task", "gpus": "job"}
"""Options that request GPUs, with what each number is for; of different numbers the first counts."""
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def convert_resources(conversion: SbatchConversion) -> dict[str, Any]:
    """Return the number of nodes and the resources of each node, from all options that concern
    them.
    """
    options: list[str] = []
    nodes, tasks = _convert_tasks(conversion, _parse_node_count(conversion), options)
    cpus = _parse_count(conversion, "cpus-per-task")
    fields: dict[str, Any] = {}
    if nodes is not None:
        fields["nodes"] = nodes
    if tasks is not None:
        fields["tasks_per_node"] = tasks
    if cpus is not None:
        fields["cpus_per_task"] = cpus
    gpu_type, gpus, gres = _convert_gpus(conversion, nodes, tasks, options)
    if gpus:
        fields["gpu"] = gpus if gpu_type is None else f"{gpu_type}:{gpus}"
    if gres:
        fields["gres"] = gres
    memory = _convert_memory(conversion, (tasks or 1) * (cpus or 1), gpus, options)
    if memory is not None:
        fields["memory"] = memory
    if options:
        fields["sbatch_options"] = options
    for name, option in (
        ("cpus_per_task", "cpus-per-task"),
        ("tasks_per_node", "ntasks"),
        ("tasks_per_node", "ntasks-per-node"),
        ("gpu", "gpus"),
        ("memory", "mem"),
    ):
        if option in conversion.amounts:
            conversion.lines[f"resources.{name}"] = conversion.amounts[option].line
    return fields


def _parse_node_count(conversion: SbatchConversion) -> int | None:
    option = conversion.amounts.get("nodes")
    if option is None:
        return None
    match = _RANGE.fullmatch(option.value or "")
    if not re.fullmatch(r"[0-9][0-9kKmM,:-]*", option.value or ""):
        refuse_option(option, f"{option.value!r} is not a number of nodes, so sbatch refuses it")
    if match is None or not int(match[1]):
        conversion.add_note(option.line, "--nodes", f"{option.value!r} is not a number of nodes")
        return None
    if match[2] and match[2] != match[1]:
        conversion.add_note(
            option.line,
            "--nodes",
            f"{option.value} became {match[1]}: a job has one number of nodes",
        )
    return int(match[1])


def _parse_count(conversion: SbatchConversion, name: str) -> int | None:
    option = conversion.amounts.get(name)
    if option is None:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", option.value or "") or not int(option.value or 0):
        refuse_option(option, f"{option.value!r} is not a number from 1, so sbatch refuses it")
    return int(option.value or 0)


def _convert_tasks(
    conversion: SbatchConversion, nodes: int | None, options: list[str]
) -> tuple[int | None, int | None]:
    """Return the number of nodes, and of tasks on each node; None if no option sets it. Add
    ``ntasks`` to ``options`` if Slurm can get the number of all tasks as the script has it.

    A note is added if sbatch would start another number of tasks, or on another number of nodes.
    """
    per_node, tasks = (
        _parse_count(conversion, "ntasks-per-node"),
        _parse_count(conversion, "ntasks"),
    )
    if tasks is None:
        return nodes, per_node
    option = conversion.amounts["ntasks"]
    if nodes is not None and tasks < nodes:
        conversion.add_note(
            option.line,
            "--nodes",
            f"{nodes} became {tasks}, as sbatch does for {tasks} tasks",
            changes_execution=False,
        )
        nodes = tasks
    if nodes is None and per_node is not None:
        nodes = -(-tasks // per_node)
    if nodes is None:
        if tasks > 1:
            conversion.add_note(
                option.line,
                "--ntasks",
                f"{tasks} tasks run on one node, where sbatch may use more; set `resources.nodes` "
                "and `resources.tasks_per_node` to spread them",
            )
        if per_node is None:
            options.append("ntasks")
        return None, tasks
    tasks_on_each = -(-tasks // nodes)
    if tasks % nodes or (per_node is not None and per_node < tasks_on_each):
        conversion.add_note(
            option.line,
            "--ntasks",
            f"{tasks} tasks on {nodes} nodes became {tasks_on_each} on each, because each node "
            "has the same number",
        )
    elif per_node is None:
        options.append("ntasks")
    elif nodes > 1 and per_node != tasks_on_each:
        conversion.add_note(
            option.line,
            "--ntasks",
            f"{tasks} tasks on {nodes} nodes became {tasks_on_each} on each, where sbatch may "
            "place them unevenly",
            changes_execution=False,
        )
    return nodes, tasks_on_each


def _convert_gpus(
    conversion: SbatchConversion, nodes: int | None, tasks: int | None, options: list[str]
) -> tuple[str | None, int, dict[str, int]]:
    """Return the type and number of GPUs on each node, and the other GRES on each node. Add the
    options that set the GPUs to ``options`` if Slurm can get them as the script has them.

    A note is added for what a job file cannot express: GPUs of several types, and other numbers for
    the same resource. As in Slurm, the last number for a resource counts, of ``--gres`` before
    ``--gpus-per-node``.
    """
    gpus: dict[str, Gres] = {}
    inexact: set[str] = set()
    gres: dict[str, int] = {}
    for name in _GPU_OPTIONS:
        for one in _parse_gres_list(conversion, name):
            if one.kind != "gpu":
                gres[one.name] = one.count
            elif one.count:
                on_node, exact = _count_gpus_per_node(conversion, name, one, nodes or 1, tasks)
                _check_gpu(conversion, name, on_node, gpus)
                gpus[name] = on_node
                inexact |= set() if exact else {name}
    gres = {name: count for name, count in gres.items() if count}
    if not gpus:
        return None, 0, gres
    kept = next(iter(gpus.values()))
    for name, gpu in gpus.items():
        if gpu.count != kept.count and name in ("gpus", "gpus-per-task") and nodes is not None:
            refuse_option(
                conversion.amounts[name],
                f"requests {gpu.count} GPUs on each node and another option {kept.count}, so Slurm refuses it",
            )
        if gpu != kept:
            conversion.add_note(
                conversion.amounts[name].line,
                f"--{name}",
                f"{gpu} was left out: a job has one number of GPUs of one type on each node, and "
                f"{kept} is kept",
            )
        elif name != "gres" and name not in inexact:
            options.append(name)
    return kept.type, kept.count, gres


def _count_gpus_per_node(
    conversion: SbatchConversion, name: str, gpu: Gres, nodes: int, tasks: int | None
) -> tuple[Gres, bool]:
    """Return the GPUs on each node that an option requests, and whether Slurm can get the option as
    the script has it.
    """
    count, exact = gpu.count, True
    if _GPU_OPTIONS[name] == "task":
        count, exact = count * (tasks or 1), tasks is not None
    elif _GPU_OPTIONS[name] == "job":
        exact = not count % nodes
        if not exact:
            message = f"{count} on {nodes} nodes became the same number on each node"
            conversion.add_note(conversion.amounts[name].line, f"--{name}", message)
        count = -(-count // nodes)
    return Gres("gpu", gpu.type, count), exact


def _check_gpu(
    conversion: SbatchConversion, name: str, gpu: Gres, others: Mapping[str, Gres]
) -> None:
    """Refuse GPUs with a type beside ones without, as Slurm does; add a note for another type in
    the same option.
    """
    option = conversion.amounts[name]
    if any((other.type is None) != (gpu.type is None) for other in others.values()):
        refuse_option(
            option, "requests GPUs beside others, with and without a type, so Slurm refuses it"
        )
    if name in others and others[name].type != gpu.type:
        message = f"{others[name]} was left out: a job has GPUs of one type on each node"
        conversion.add_note(option.line, f"--{name}", message)


def _parse_gres_list(conversion: SbatchConversion, name: str) -> Iterator[Gres]:
    """Yield the resources that an option lists, and add a note for what is none."""
    option = conversion.amounts.get(name)
    if name == "gres" and option and (option.value or "").lower() == "none":
        return
    for part in (option.value or "").split(",") if option else ():
        try:
            if name == "gres":
                yield from parse_gres(part)
            else:
                gpus = GpuRequest.model_validate(GpuRequest.parse(part))
                yield Gres("gpu", gpus.type, gpus.count)
        except ValueError:
            what = "a name and a number" if name == "gres" else "one number of GPUs"
            if option is not None:
                conversion.add_note(option.line, f"--{name}", f"{part!r} is not {what}")


def _convert_memory(
    conversion: SbatchConversion, cpus: int, gpus: int, options: list[str]
) -> str | None:
    """Return the memory on each node as text; None if no option sets a usable amount. Add the
    option that sets it to ``options`` unless it is ``--mem``.
    """
    text: str | None = None
    spelling = "mem"
    given = _memory_options(conversion)
    for name, times in (("mem-per-gpu", gpus), ("mem-per-cpu", cpus), ("mem", 1)):
        option = given.get(name)
        if option is None:
            continue
        match = _MEMORY.fullmatch(option.value or "")
        if not re.fullmatch(r"[0-9]+[KMGTP]?B?", option.value or "", re.IGNORECASE):
            refuse_option(
                option, f"{option.value!r} is not an amount of memory, so sbatch refuses it"
            )
        if match is not None and not int(match[1]) and name != "mem-per-gpu":
            return ALL
        if match is None or not int(match[1]) or not times:
            message = f"{option.value!r} is not an amount that can be converted"
            conversion.add_note(option.line, f"--{name}", message)
            continue
        text, spelling = format_memory((int(match[1]) << _UNITS[match[2].upper()]) * times), name
    if spelling != "mem":
        options.append(spelling)
    return text


def _memory_options(conversion: SbatchConversion) -> dict[str, SbatchOption]:
    """Return the options about memory that are in force: one in the script or on the command line
    replaces those of the environment. Two of them are refused, as by sbatch.
    """
    given = {
        name: conversion.amounts[name] for name in _MEMORY_OPTIONS if name in conversion.amounts
    }
    written = {name: option for name, option in given.items() if option.variable is None}
    chosen = written or given
    if len(chosen) > 1:
        first, second, *_ = chosen
        refuse_option(chosen[second], f"and --{first} exclude each other, so sbatch refuses them")
    return chosen
