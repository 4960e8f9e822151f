"""Check whether the cluster can run a request at all, and whether it can start it now. Pure
arithmetic on a snapshot of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import Node, NodeState
from aitne.core.models.resources import Resources

_USABLE = frozenset(state for state in NodeState if state.is_usable) - {NodeState.UNKNOWN}

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


def check_fit(resources: Resources, nodes: Sequence[Node]) -> Fit:
    """Compare a request with the nodes: first with their total resources, then with the free
    resources.

    If no node is known, the request is treated as pending and has no problems.
    """
    if not nodes:
        return Fit(True, False, "No node has reported to the platform yet.")
    enough = select_capable_nodes(resources, nodes)
    return replace(_check_capable_nodes(resources, nodes, enough), able=tuple(enough))


def _check_capable_nodes(
    resources: Resources, nodes: Sequence[Node], capable_nodes: Sequence[Node]
) -> Fit:
    if len(capable_nodes) < resources.nodes:
        return Fit(
            False, False, None, tuple(_find_request_problems(resources, nodes, len(capable_nodes)))
        )
    usable = [node for node in capable_nodes if node.state in _USABLE]
    if len(usable) < resources.nodes:
        unavailable = [node for node in capable_nodes if node.state not in _USABLE]
        return Fit(
            True,
            False,
            _explain_unavailable_nodes(unavailable, resources.nodes - len(usable)),
            away=True,
        )
    missing = [
        _find_missing_amounts(resources, _get_free_amounts(resources, node)) for node in usable
    ]
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
    return Fit(
        True, False, f"Waits for {_describe_missing_amounts(nearest, resources)} to become free."
    )


def _explain_unavailable_nodes(unavailable: Sequence[Node], needed: int) -> str:
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


def select_capable_nodes(resources: Resources, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that could run their part of the request if no other job used them."""
    return [
        node
        for node in nodes
        if not _find_missing_amounts(resources, _get_total_amounts(resources, node))
    ]


def select_free_nodes(resources: Resources, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes that could start their part of the request now."""
    return [
        node
        for node in nodes
        if node.state in _USABLE
        and not _find_missing_amounts(resources, _get_free_amounts(resources, node))
    ]


def count_gpus(resources: Resources, node: Node) -> tuple[int, int]:
    """Return how many GPUs of the requested type a node has, and how many of them are free."""
    return _get_total_amounts(resources, node)["gpu"], _get_free_amounts(resources, node)["gpu"]


def _get_total_amounts(resources: Resources, node: Node) -> dict[str, int]:
    return {
        "gpu": sum(gpu.total for gpu in node.gpus if resources.gpu.type in (None, gpu.type)),
        "cpu": node.cpu_total,
        "memory": node.memory_total_bytes,
        **{
            name: sum(gres.total for gres in node.gres if _matches_gres(gres.name, name))
            for name in resources.gres
        },
    }


def _matches_gres(has: str, name: str) -> bool:
    """Return whether the GRES ``has`` of a node satisfies a request for ``name``: ``fpga:u280``
    also satisfies ``fpga``.
    """
    return has == name or has.startswith(f"{name}:")


def _get_free_amounts(resources: Resources, node: Node) -> dict[str, int]:
    return {
        "gpu": sum(
            gpu.total - gpu.used for gpu in node.gpus if resources.gpu.type in (None, gpu.type)
        ),
        "cpu": node.cpu_total - node.cpu_used,
        "memory": node.memory_total_bytes - node.memory_used_bytes,
        **{
            name: sum(
                gres.total - gres.used for gres in node.gres if _matches_gres(gres.name, name)
            )
            for name in resources.gres
        },
    }


def _get_requested_amounts(resources: Resources) -> dict[str, int]:
    return {
        "gpu": resources.gpu.count,
        "cpu": resources.cpu,
        "memory": resources.memory_bytes,
        **resources.gres,
    }


def _find_missing_amounts(resources: Resources, has: dict[str, int]) -> dict[str, int]:
    """Return the missing amount of each resource; empty if a node with the free resources ``has``
    is sufficient.
    """
    return {
        kind: amount - has[kind]
        for kind, amount in _get_requested_amounts(resources).items()
        if amount > has[kind]
    }


def _describe_missing_amounts(missing: dict[str, int], resources: Resources) -> str:
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


def _find_request_problems(
    resources: Resources, nodes: Sequence[Node], capable_count: int
) -> Iterable[FieldProblem]:
    request = _get_requested_amounts(resources)
    exceeded = False
    if request["gpu"] > max(_get_total_amounts(resources, node)["gpu"] for node in nodes):
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
        maximum = max(_get_total_amounts(resources, node)[name] for node in nodes)
        if count > maximum:
            exceeded = True
            yield FieldProblem(
                "resources.gres",
                f"{count} {name} requested; the node with the most has {maximum}"
                if maximum
                else f"no node has a GRES of the name {name}",
                f"{name}: {count}",
                f"at most {maximum}" if maximum else _describe_gres(nodes),
            )
    if exceeded:
        return
    if capable_count:
        nodes_able = "1 node has" if capable_count == 1 else f"{capable_count} nodes have"
        yield FieldProblem(
            "resources.nodes",
            f"{resources.nodes} nodes requested; the job can use {capable_count}"
            if capable_count == len(nodes)
            else f"{resources.nodes} nodes requested; {nodes_able} the requested CPUs, memory and GPUs",
            str(resources.nodes),
            "1" if capable_count == 1 else f"1 to {capable_count}",
        )
    else:
        yield FieldProblem(
            "resources",
            "no node has that many CPUs, that much memory and that many GPUs at once",
            _describe_missing_amounts(
                {kind: amount for kind, amount in request.items() if amount}, resources
            ),
            "; ".join(sorted({_describe_node(node) for node in nodes})),
        )


def _describe_gres(nodes: Sequence[Node]) -> str:
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
        largest = max(nodes, key=lambda node: _get_total_amounts(resources, node)["gpu"])
        has = ", ".join(
            f"{gpu.total} {gpu.type or ('GPU' if gpu.total == 1 else 'GPUs')}"
            for gpu in largest.gpus
            if gpu.total and request.type in (None, gpu.type)
        )
        message = f"{request.count} requested; the largest node has {has}"
    return FieldProblem("resources.gpu", message, str(request), f"at most {allowed}")


def _describe_node(node: Node) -> str:
    gpus = "".join(f", {gpu.total} {gpu.type or 'GPU'}" for gpu in node.gpus if gpu.total)
    return f"{node.cpu_total} CPUs, {describe_bytes(node.memory_total_bytes, 'down')}{gpus}"
