"""Nodes, tasks, CPUs, memory and GPUs of a batch script, as what each node of a job gives."""

from __future__ import annotations

import re
from typing import Any

from aitne.core.sbatch_options import Wish
from aitne.core.units import format_memory

_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 10, "": 20, "M": 20, "G": 30, "T": 40}
_GPU = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9_.-]{0,39}):)?([0-9]{1,4})")
_GRES = re.compile(
    r"(?:gres[:/])?([a-z][a-z0-9_]{0,39})(?::([A-Za-z0-9][A-Za-z0-9_.-]{0,39}))??(?::([0-9]{1,6}))?"
)
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


def resources(wish: Wish) -> dict[str, Any]:
    """Return the nodes and the resources of each, from all options that concern them."""
    nodes = _nodes(wish)
    tasks = _tasks(wish, nodes)
    cpus = _count(wish, "cpus-per-task")
    found: dict[str, Any] = {}
    if nodes is not None:
        found["nodes"] = nodes
    if tasks is not None or cpus is not None:
        found["cpu"] = (tasks or 1) * (cpus or 1)
    gpu_type, gpus, gres = _gpus(wish, nodes or 1, tasks or 1)
    if gpus:
        found["gpu"] = gpus if gpu_type is None else f"{gpu_type}:{gpus}"
    if gres:
        found["gres"] = gres
    memory = _memory(wish, found.get("cpu", 1), gpus)
    if memory is not None:
        found["memory"] = memory
    for name, given in (("cpu", "cpus-per-task"), ("gpu", "gpus"), ("memory", "mem")):
        if given in wish.amounts:
            wish.lines[f"resources.{name}"] = wish.amounts[given].line
    return found


def _nodes(wish: Wish) -> int | None:
    given = wish.amounts.get("nodes")
    if given is None:
        return None
    found = _RANGE.fullmatch(given.value or "")
    if found is None or not int(found[1]):
        wish.note(given.line, "--nodes", f"{given.value!r} is not a number of nodes")
        return None
    if found[2] and found[2] != found[1]:
        wish.note(
            given.line, "--nodes", f"{given.value} became {found[1]}: a job has one number of nodes"
        )
    return int(found[1])


def _count(wish: Wish, name: str) -> int | None:
    given = wish.amounts.get(name)
    if given is None:
        return None
    if not re.fullmatch(r"[0-9]{1,6}", given.value or "") or not int(given.value or 0):
        wish.note(given.line, f"--{name}", f"{given.value!r} is not a number of them")
        return None
    return int(given.value or 0)


def _tasks(wish: Wish, nodes: int | None) -> int | None:
    """Return the number of tasks on each node; None: no option sets it."""
    each, all_ = _count(wish, "ntasks-per-node"), _count(wish, "ntasks")
    if each is not None:
        return each
    if all_ is None:
        return None
    given = wish.amounts["ntasks"]
    if nodes is None and all_ > 1:
        wish.note(
            given.line,
            "--ntasks",
            f"{all_} tasks became {all_} times the CPUs on one node; set `resources.nodes` to spread them",
        )
    elif nodes is not None and all_ % nodes:
        wish.note(
            given.line, "--ntasks", f"{all_} tasks on {nodes} nodes became room for as many on each"
        )
    return -(-all_ // (nodes or 1))


def _gpus(wish: Wish, nodes: int, tasks: int) -> tuple[str | None, int, dict[str, int]]:
    """Return the type and number of GPUs on each node, and the other GRES."""
    kind: str | None = None
    count = 0
    gres: dict[str, int] = {}
    for name, share in (("gpus", "job"), ("gpus-per-task", "task"), ("gpus-per-node", "node")):
        given = wish.amounts.get(name)
        if given is None:
            continue
        parts = (given.value or "").split(",")
        found = _GPU.fullmatch(parts[0])
        if found is None or len(parts) > 1:
            wish.note(given.line, f"--{name}", f"{given.value!r} is not one number of GPUs")
        if found is None:
            continue
        kind, number = found[1], int(found[2])
        if share == "job" and number % nodes:
            wish.note(
                given.line, "--gpus", f"{number} on {nodes} nodes became as many on each node"
            )
        count = (
            -(-number // nodes) if share == "job" else number * (tasks if share == "task" else 1)
        )
    given = wish.amounts.get("gres")
    for part in (given.value or "").split(",") if given else ():
        found = _GRES.fullmatch(re.sub(r"\([^()]*\)", "", part))
        if given is None or found is None:
            if given is not None and part not in ("", "none", "NONE"):
                wish.note(given.line, "--gres", f"{part!r} is not a name and a number")
            continue
        number = int(found[3] or 1)
        if found[1] == "gpu":
            kind, count = found[2], number
        elif number:
            gres[found[1] if found[2] is None else f"{found[1]}:{found[2]}"] = number
    return (kind if count else None), count, gres


def _memory(wish: Wish, cpus: int, gpus: int) -> str | None:
    """Return the memory on each node; None: no option sets a usable amount."""
    text: str | None = None
    for name, times in (("mem-per-gpu", gpus), ("mem-per-cpu", cpus), ("mem", 1)):
        given = wish.amounts.get(name)
        if given is None:
            continue
        found = _MEMORY.fullmatch(given.value or "")
        if found is None or not int(found[1]) or not times:
            why = "all of a node's" if (given.value or "").startswith("0") else repr(given.value)
            wish.note(given.line, f"--{name}", f"{why} is no amount that can be carried over")
            continue
        text = format_memory((int(found[1]) << _UNITS[found[2].upper()]) * times)
    return text
