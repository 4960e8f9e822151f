"""Slurm's variables about tasks, with the values of the ranks that a launcher starts inside a task.

A launcher in a batch script, or the agent of a node, is itself one task. Its variables would give
every rank of a node the same number, and libraries such as Lightning and JAX take them before
``RANK``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence

    from aitne_train.launcher.rank_detection import RankTopology

_SIZES = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS")


def build_rank_environment(
    environ: Mapping[str, str], world: RankTopology, node: int, ranks: Sequence[int]
) -> dict[str, str]:
    """Return ``environ`` with Slurm's variables about the task as ``srun`` would set them if it had
    started the rank ``world``.

    Only variables that are set get another value. If the number of tasks is set, those of the
    task's own place are added.

    Args:
        environ: environment variables of the launcher.
        world: position of the rank.
        node: number of its node.
        ranks: number of ranks of each node; empty: not known.
    """
    first = world.rank - world.local_rank
    values: dict[str, str | None] = {
        "SLURM_PROCID": str(world.rank),
        "SLURM_LOCALID": str(world.local_rank),
        "SLURM_NODEID": str(node),
    }
    if "SLURM_NTASKS" not in environ:
        values = {name: value for name, value in values.items() if name in environ}
    is_even = len(set(ranks)) == 1
    others = {
        **dict.fromkeys(_SIZES, str(world.size)),
        "SLURM_NTASKS_PER_NODE": str(ranks[0]) if is_even else None,
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, ranks)) or None,
        "SLURM_GTIDS": ",".join(map(str, range(first, first + world.local_size))),
    }
    values.update({name: value for name, value in others.items() if name in environ})
    if is_even and "SLURM_NTASKS" in environ:
        values["SLURM_NTASKS_PER_NODE"] = str(ranks[0])
    kept = {name: value for name, value in environ.items() if name not in values}
    return {**kept, **{name: value for name, value in values.items() if value is not None}}
