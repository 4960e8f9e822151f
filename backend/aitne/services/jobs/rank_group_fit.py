"""Check that a rank group can run beside its session, which holds its resources until both end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aitne.core.errors import FieldProblem
from aitne.core.models.cluster import Node
from aitne.core.models.job import Job, JobSpec


def session_problems(spec: JobSpec, session: Job, nodes: Sequence[Node]) -> Iterator[FieldProblem]:
    """Yield a problem if the rank group can start only after its session has ended, at which it is
    cancelled.

    Args:
        spec: specification of the rank group.
        session: session that the ranks serve.
        nodes: nodes that could run a part of the rank group if no other job used them.
    """
    wanted = spec.resources.nodes
    per_node = 1 if spec.distributed is None else spec.distributed.ranks_per_node
    room = sorted(
        (min(_count_fitting_ranks(spec, per_node, session, n), per_node) for n in nodes),
        reverse=True,
    )
    if not nodes or room[wanted - 1 : wanted] == [per_node]:
        return
    fitting = max(number * ranks for number, ranks in enumerate(room[:wanted], 1))
    noun = "1 rank" if fitting == 1 else f"{fitting} ranks"
    ranks = "1 rank" if wanted * per_node == 1 else f"{wanted * per_node} ranks"
    yield FieldProblem(
        "ranks",
        f"{ranks} cannot start while session {session.name} runs, which holds a part of what they need"
        f"{f'; {noun} can' if fitting else ''}",
        str(wanted * per_node),
        ("1" if fitting == 1 else f"1 to {fitting}")
        if fitting
        else "less for each rank, or a smaller session",
    )


def _count_fitting_ranks(spec: JobSpec, per_node: int, session: Job, node: Node) -> int:
    """Return how many of the ranks fit on the node beside the session alone.

    The scheduler may not count a resource, such as the memory of a Slurm cluster that allocates
    CPUs alone: no more is deducted for the session than it reports as used.
    """
    holds = node.name in session.nodes
    if holds and (spec.slurm.exclusive or session.spec.slurm.exclusive):
        return 0
    wish, held = spec.resources, session.spec.resources
    gpus = [gpu for gpu in node.gpus if wish.gpu.type in (None, gpu.type)]
    types = (wish.gpu.type, held.gpu.type)
    same_gpus = holds and (None in types or types[0] == types[1])
    amounts = (
        (wish.cpu, node.cpu_total, min(held.cpu, node.cpu_used) if holds else 0),
        (
            wish.memory_bytes,
            node.memory_total_bytes,
            min(held.memory_bytes, node.memory_used_bytes) if holds else 0,
        ),
        (
            wish.gpu.count,
            sum(gpu.total for gpu in gpus),
            min(held.gpu.count, sum(gpu.used for gpu in gpus)) if same_gpus else 0,
        ),
    )
    return min((total - taken) * per_node // wanted for wanted, total, taken in amounts if wanted)
