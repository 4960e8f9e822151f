"""Check whether the cluster can run a request at all, and whether it can start it now. Pure
arithmetic on a snapshot of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aitne.core.errors import FieldProblem
from aitne.core.models.node import Node, NodeState
from aitne.core.models.resources import Resources
from aitne.core.sizes import describe_bytes

_USABLE = frozenset(state for state in NodeState if state.usable) - {NodeState.UNKNOWN}

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Fit:
    """Result of the comparison of a request with the nodes of the cluster."""

    fits: bool
    """Whether the cluster could run the request if no other job used it."""
    starts_now: bool
    """Whether enough resources are free to start the request now."""
    reason: str | None = None
    """Reason why the request cannot start now, as a sentence; None: it can start, or can
    never run.
    """
    problems: tuple[FieldProblem, ...] = ()
    """Reasons why the cluster can never run the request; empty if it can."""
    notes: tuple[str, ...] = ()
    """Notes for the user about a request without problems."""
    able: tuple[Node, ...] = ()
    """Nodes that could run their part of the request if no other job used them."""
    away: bool = False
    """Whether the request can start only after unavailable nodes return; a scheduler may then
    answer that no nodes exist for it.
    """


def fit(resources: Resources, nodes: Sequence[Node]) -> Fit:
    """Compare a request with the nodes: first with their total resources, then with the free
    resources.

    If no node is known, the request is treated as pending and has no problems.
    """
    if not nodes:
        return Fit(True, False, "No node has reported to the platform yet.")
    enough = able(resources, nodes)
    return replace(_fit(resources, nodes, enough), able=tuple(enough))


def _fit(resources: Resources, nodes: Sequence[Node], enough: Sequence[Node]) -> Fit:
    if len(enough) < resources.nodes:
        return Fit(False, False, None, tuple(_problems(resources, nodes, len(enough))))
    usable = [node for node in enough if node.state in _USABLE]
    if len(usable) < resources.nodes:
        unavailable = [node for node in enough if node.state not in _USABLE]
        return Fit(True, False, _away(unavailable, resources.nodes - len(usable)), away=True)
    missing = [_short(resources, _free(resources, node)) for node in usable]
    free_now = missing.count({})
    if free_now >= resources.nodes:
        return Fit(True, True)
    if resources.nodes > 1:
        verb = "has" if free_now == 1 else "have"
        return Fit(
            True,
            False,
            f"Waits for {resources.nodes} nodes with that much free; {free_now} {verb} it now.",
        )
    nearest = min(missing, key=lambda amounts: (len(amounts), sum(amounts.values())))
    return Fit(True, False, f"Waits for {_words(nearest, resources)} to become free.")


def _away(unavailable: Sequence[Node], needed: int) -> str:
    """Return a sentence with the names and reasons of the unavailable nodes that the request waits
    for.
    """
    parts = [
        f"{node.name} is {node.state}{f' ({node.reason})' if node.reason else ''}"
        for node in sorted(unavailable, key=lambda node: node.name)
    ]
    if len(parts) > _MOST_NAMED:
        parts[_MOST_NAMED:] = [f"{len(parts) - _MOST_NAMED} more"]
    which = "a node" if needed == 1 else f"{needed} nodes"
    return f"Waits for {which} to come back into service: {', '.join(parts)}."


def able(resources: Resources, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that could run their part of the request if no other job used them."""
    return [node for node in nodes if not _short(resources, _total(resources, node))]


def free_now(resources: Resources, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that could start their part of the request now."""
    return [
        node
        for node in nodes
        if node.state in _USABLE and not _short(resources, _free(resources, node))
    ]


def gpus_of(resources: Resources, node: Node) -> tuple[int, int]:
    """Return how many GPUs of the requested type a node has, and how many of them are free."""
    return _total(resources, node)["gpu"], _free(resources, node)["gpu"]


def _total(resources: Resources, node: Node) -> dict[str, int]:
    return {
        "gpu": sum(gpu.total for gpu in node.gpus if resources.gpu.type in (None, gpu.type)),
        "cpu": node.cpu_total,
        "memory": node.memory_total_bytes,
        **{
            name: sum(gres.total for gres in node.gres if _is(gres.name, name))
            for name in resources.gres
        },
    }


def _is(has: str, name: str) -> bool:
    """Return whether the GRES ``has`` of a node satisfies a request for ``name``: ``fpga:u280``
    also satisfies ``fpga``.
    """
    return has == name or has.startswith(f"{name}:")


def _free(resources: Resources, node: Node) -> dict[str, int]:
    return {
        "gpu": sum(
            gpu.total - gpu.used for gpu in node.gpus if resources.gpu.type in (None, gpu.type)
        ),
        "cpu": node.cpu_total - node.cpu_used,
        "memory": node.memory_total_bytes - node.memory_used_bytes,
        **{
            name: sum(gres.total - gres.used for gres in node.gres if _is(gres.name, name))
            for name in resources.gres
        },
    }


def _asked(resources: Resources) -> dict[str, int]:
    return {
        "gpu": resources.gpu.count,
        "cpu": resources.cpu,
        "memory": resources.memory_bytes,
        **resources.gres,
    }


def _short(resources: Resources, has: dict[str, int]) -> dict[str, int]:
    """Return the missing amount of each resource; empty if a node with the free resources ``has``
    is sufficient.
    """
    return {
        kind: amount - has[kind] for kind, amount in _asked(resources).items() if amount > has[kind]
    }


def _words(missing: dict[str, int], resources: Resources) -> str:
    parts = []
    for kind, amount in missing.items():
        if kind == "memory":
            parts.append(f"{describe_bytes(amount, 'up')} of memory")
        elif kind == "cpu":
            parts.append("1 CPU" if amount == 1 else f"{amount} CPUs")
        elif kind != "gpu":
            parts.append(f"{amount} {kind}")
        else:
            name = f"{resources.gpu.type} GPU" if resources.gpu.type else "GPU"
            parts.append(f"{amount} {name}{'' if amount == 1 else 's'}")
    return " and ".join(parts)


def _problems(resources: Resources, nodes: Sequence[Node], able: int) -> Iterable[FieldProblem]:
    request = _asked(resources)
    exceeded = False
    if request["gpu"] > max(_total(resources, node)["gpu"] for node in nodes):
        exceeded = True
        yield _gpu_problem(resources, nodes)
    most_cpu = max(node.cpu_total for node in nodes)
    if request["cpu"] > most_cpu:
        exceeded = True
        yield FieldProblem(
            "resources.cpu",
            f"{request['cpu']} requested; the largest node has {most_cpu}",
            str(request["cpu"]),
            f"1 to {most_cpu}",
        )
    most_memory = max(node.memory_total_bytes for node in nodes)
    if request["memory"] > most_memory:
        exceeded = True
        value = describe_bytes(request["memory"], "up")
        largest = describe_bytes(most_memory, "down")
        yield FieldProblem(
            "resources.memory",
            f"{value} requested; the largest node has {largest}",
            value,
            f"at most {largest}",
        )
    for name, count in resources.gres.items():
        maximum = max(_total(resources, node)[name] for node in nodes)
        if count > maximum:
            exceeded = True
            yield FieldProblem(
                "resources.gres",
                f"{count} {name} requested; the node with the most has {maximum}"
                if maximum
                else f"no node has a GRES of the name {name}",
                f"{name}: {count}",
                f"at most {maximum}" if maximum else _gres_words(nodes),
            )
    if exceeded:
        return
    if able:
        nodes_able = "1 node has" if able == 1 else f"{able} nodes have"
        yield FieldProblem(
            "resources.nodes",
            f"{resources.nodes} nodes requested; the job can use {able}"
            if able == len(nodes)
            else f"{resources.nodes} nodes requested; {nodes_able} the requested CPUs, memory and GPUs",
            str(resources.nodes),
            "1" if able == 1 else f"1 to {able}",
        )
    else:
        yield FieldProblem(
            "resources",
            "no node has that many CPUs, that much memory and that many GPUs at once",
            _words({kind: amount for kind, amount in request.items() if amount}, resources),
            "; ".join(sorted({_node_words(node) for node in nodes})),
        )


def _gres_words(nodes: Sequence[Node]) -> str:
    names = sorted({gres.name for node in nodes for gres in node.gres if gres.total})
    return ", ".join(names) or "none: no node has one"


def _gpu_problem(resources: Resources, nodes: Sequence[Node]) -> FieldProblem:
    request = resources.gpu
    maxima: dict[str, int] = {}
    for node in nodes:
        for gpu in node.gpus:
            if gpu.total:
                name = gpu.type or "GPU"
                maxima[name] = max(maxima.get(name, 0), gpu.total)
    allowed = ", ".join(
        f"{count}" if name == "GPU" else f"{name}:{count}" for name, count in sorted(maxima.items())
    )
    if not maxima:
        return FieldProblem("resources.gpu", "no node has a GPU", str(request), "0")
    if request.type is not None and request.type not in maxima:
        message = f"no node has a GPU of type {request.type}"
    else:
        largest = max(nodes, key=lambda node: _total(resources, node)["gpu"])
        has = ", ".join(
            f"{gpu.total} {gpu.type or ('GPU' if gpu.total == 1 else 'GPUs')}"
            for gpu in largest.gpus
            if gpu.total and request.type in (None, gpu.type)
        )
        message = f"{request.count} requested; the largest node has {has}"
    return FieldProblem("resources.gpu", message, str(request), f"at most {allowed}")


def _node_words(node: Node) -> str:
    gpus = "".join(f", {gpu.total} {gpu.type or 'GPU'}" for gpu in node.gpus if gpu.total)
    return f"{node.cpu_total} CPUs, {describe_bytes(node.memory_total_bytes, 'down')}{gpus}"
