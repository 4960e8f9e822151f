"""Position of this process among the ranks of its program, read from the environment variables of
its launcher.

Names are torch's (https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables).
Where every node has equally many ranks, the node rank is what Horovod calls the cross rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aitne_train.launcher import hosts
from aitne_train.launcher.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class RankTopology:
    """Position of one rank in the run, with the terms of Horovod: rank, local rank and cross rank.

    Ranks are numbered node by node.
    """

    rank: int = 0
    """Number of this rank, from 0."""
    size: int = 1
    """Number of ranks of the run."""
    local_rank: int = 0
    """Number of this rank on its node, from 0."""
    local_size: int = 1
    """Number of ranks on its node."""
    cross_rank: int = 0
    """Index of this rank's node among the nodes that have a rank with its local rank."""
    cross_size: int = 1
    """Number of nodes that have a rank with its local rank."""
    source: str = "none"
    """Launcher whose variables gave the position: ``aitne``, ``horovod``, ``mpi``, ``slurm``,
    ``torchrun``; ``none`` for a single process."""


_LAST_STEP = 0xFFFFFFF0 - 1
"""Largest step id of a Slurm step that srun has started. Larger ones are the steps batch, extern
and interactive."""
_MPI = (
    # https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    # MPICH and those made from it, https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)  # fmt: skip
_SEVERAL = ("OMPI_MCA_orte_ess_num_procs", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS")
"""Variables that show, with a value above 1, that there are other ranks, even if no variable has
this process's own rank."""


def detect_topology(environ: Mapping[str, str]) -> RankTopology:
    """Return the position that a launcher's environment variables give this process; without such
    variables, that of the only rank.

    Of nested launchers the innermost counts: aitne-run, then torchrun, then mpirun, then srun.

    Raises:
        LaunchError: variables are incomplete or contradict each other, or a launcher of several
            ranks has started this process without saying which one it is.
    """
    if environ.get("AITNE_RENDEZVOUS"):
        return _detect_horovod(environ, "aitne")
    if environ.get("TORCHELASTIC_RUN_ID"):
        return _detect_torch(environ)
    slurm, mpi = _detect_slurm(environ), _detect_mpi(environ)
    if mpi is None and "PMIX_RANK" in environ:
        mpi = _detect_pmix(environ, slurm)
    outer = _merge_mpi_and_slurm(mpi, slurm) if mpi is not None else slurm
    world = outer
    if "HOROVOD_RANK" in environ or "HOROVOD_SIZE" in environ:
        world = _check_inner(
            _detect_horovod(environ, "horovod"), outer, "HOROVOD_RANK and HOROVOD_SIZE"
        )
    elif "RANK" in environ or "WORLD_SIZE" in environ:
        world = _check_inner(_detect_plain(environ, outer), outer, "RANK and WORLD_SIZE")
    if world is None:
        _refuse_alone(environ)
        return RankTopology()
    return world


def settle_topology(world: RankTopology, nodes: Sequence[int]) -> RankTopology:
    """Return ``world`` with local and cross ranks that are computed from the nodes of all ranks.

    A launcher may not provide the nodes of the other ranks. Ranks exchange this information when
    they connect.

    Args:
        world: position of this process according to its launcher.
        nodes: number of the node of each rank, by rank.
    """
    here = nodes[world.rank]
    local = [rank for rank, node in enumerate(nodes) if node == here]
    local_rank = local.index(world.rank)
    order = list(dict.fromkeys(nodes))
    peers = [node for node in order if nodes.count(node) > local_rank]
    return replace(
        world,
        local_rank=local_rank,
        local_size=len(local),
        cross_rank=peers.index(here),
        cross_size=len(peers),
    )


def lay_out_ranks(ranks: Sequence[int], source: str = "aitne") -> list[RankTopology]:
    """Return the positions of all ranks, numbered node by node. ``ranks`` has the number of ranks
    on each node."""
    worlds: list[RankTopology] = []
    for node, count in enumerate(ranks):
        for local_rank in range(count):
            worlds.append(
                RankTopology(
                    rank=len(worlds),
                    size=sum(ranks),
                    local_rank=local_rank,
                    local_size=count,
                    cross_rank=sum(other > local_rank for other in ranks[:node]),
                    cross_size=sum(other > local_rank for other in ranks),
                    source=source,
                )
            )
    return worlds


# --- one launcher each ---------------------------------------------------------------------------


def _detect_horovod(environ: Mapping[str, str], source: str) -> RankTopology:
    rank, size = _read_place(environ, "HOROVOD_RANK", "HOROVOD_SIZE")
    local_rank, local_size = _read_place(environ, "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")
    cross_rank, cross_size = _read_place(environ, "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE")
    return _is_possible(
        RankTopology(rank, size, local_rank, local_size, cross_rank, cross_size, source)
    )


def _detect_torch(environ: Mapping[str, str]) -> RankTopology:
    rank, size = _read_place(environ, "RANK", "WORLD_SIZE")
    local_rank, local_size = _read_place(environ, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    cross_rank = _read_number(environ, "GROUP_RANK")
    # torchrun gives the number of nodes; they may have different numbers of ranks, which it does
    # not give: every rank alone can only assume equal numbers.
    groups = _read_number(environ, "GROUP_WORLD_SIZE") if "GROUP_WORLD_SIZE" in environ else 0
    cross_size = max(cross_rank + 1, groups or -(-size // local_size))
    return _is_possible(
        RankTopology(rank, size, local_rank, local_size, cross_rank, cross_size, "torchrun")
    )


def _detect_slurm(environ: Mapping[str, str]) -> RankTopology | None:
    if not _is_in_step(environ):
        return None  # not in a step, or in a batch script, which is one task whatever it asked for
    tasks = environ.get("SLURM_STEP_NUM_TASKS") or environ.get("SLURM_NTASKS")
    if "SLURM_PROCID" not in environ or tasks is None:
        return None
    rank, size = _read_place({**environ, "SLURM_NTASKS": tasks}, "SLURM_PROCID", "SLURM_NTASKS")
    local_rank, node = _read_number(environ, "SLURM_LOCALID"), _read_number(environ, "SLURM_NODEID")
    text = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE") or ""
    tasks_per_node = hosts.parse_task_counts(text)
    if (
        sum(tasks_per_node) != size
        or node >= len(tasks_per_node)
        or local_rank >= tasks_per_node[node]
    ):
        raise LaunchError(
            f"Slurm's variables contradict each other: task {rank} of {size} is number {local_rank} of node "
            f"{node}, and SLURM_STEP_TASKS_PER_NODE is {text}. They are those of another step: start the "
            "program by srun or by aitne-run, not from a copy of a task's environment"
        )
    return RankTopology(
        rank,
        size,
        local_rank,
        tasks_per_node[node],
        sum(count > local_rank for count in tasks_per_node[:node]),
        sum(count > local_rank for count in tasks_per_node),
        "slurm",
    )


def _detect_mpi(environ: Mapping[str, str]) -> RankTopology | None:
    for rank_name, size_name, local_rank_name, local_size_name in _MPI:
        if rank_name not in environ:
            continue
        rank, size = _read_place(environ, rank_name, size_name)
        if local_rank_name not in environ:
            return RankTopology(
                rank, size, -1, 0, 0, 1, "mpi"
            )  # a place that ``_merge_mpi_and_slurm`` completes
        local_rank, local_size = _read_place(environ, local_rank_name, local_size_name)
        return _is_possible(
            _estimate_cross_rank(RankTopology(rank, size, local_rank, local_size, 0, 1, "mpi"))
        )
    return None


def _detect_pmix(environ: Mapping[str, str], slurm: RankTopology | None) -> RankTopology | None:
    """Return the position of a task that was started with PMIx: its position in the Slurm step.
    Raises ``LaunchError`` if it was not started by Slurm.

    PMIx provides the rank in a variable, but the number of ranks only through its server.
    """
    rank = _read_number(environ, "PMIX_RANK")
    if slurm is None or slurm.rank != rank:
        raise LaunchError(
            f"PMIX_RANK says that this is task {rank}, and no variable says of how many. Start the program "
            "by aitne-run, or by the mpirun of the MPI that this Python uses"
        )
    return slurm


def _estimate_cross_rank(world: RankTopology) -> RankTopology:
    """Return ``world`` with an estimated cross rank, because MPI does not provide the node of a
    rank.

    Ranks are assumed to fill one node after the other or, if that contradicts the local rank, to be
    distributed round-robin. If both contradict it, the cross rank is 0.
    """
    nodes = -(-world.size // world.local_size)
    if world.rank % world.local_size == world.local_rank:
        return replace(world, cross_rank=world.rank // world.local_size, cross_size=nodes)
    if world.rank // nodes == world.local_rank:
        return replace(world, cross_rank=world.rank % nodes, cross_size=nodes)
    return replace(world, cross_rank=0, cross_size=1 if nodes == 1 else nodes)


def _merge_mpi_and_slurm(mpi: RankTopology, slurm: RankTopology | None) -> RankTopology:
    """Return the rank's position according to MPI. If the Slurm step has the same rank and number
    of ranks, values that MPI does not report are taken from ``slurm``.

    Raises ``LaunchError`` if the local rank is unknown.
    """
    same = slurm is not None and (slurm.rank, slurm.size) == (mpi.rank, mpi.size)
    if slurm is not None and same:
        return replace(slurm, source="mpi")
    if mpi.local_size:
        return mpi
    if mpi.size == 1:
        return RankTopology(source="mpi")
    raise LaunchError(
        f"MPI's variables say that this is rank {mpi.rank} of {mpi.size}, and not which one of its node: "
        "start the program by aitne-run"
    )


def _detect_plain(environ: Mapping[str, str], outer: RankTopology | None) -> RankTopology:
    """Return the position from torch's variables (``RANK``, ``WORLD_SIZE``), which a script has set
    without torchrun.

    ``outer`` is the position from the variables of another launcher; None: there are none. It is
    returned if its rank and size are the same.

    Raises:
        LaunchError: the local rank is unknown, or variables contradict each other.
    """
    rank, size = _read_place(environ, "RANK", "WORLD_SIZE")
    if outer is not None and (outer.rank, outer.size) == (rank, size):
        return outer  # a script's own variables need not be complete
    if "LOCAL_WORLD_SIZE" in environ or "LOCAL_RANK" in environ:
        local_rank, local_size = _read_place(environ, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    elif size == 1:
        local_rank, local_size = 0, 1
    else:
        raise LaunchError(
            f"RANK is {rank} and WORLD_SIZE is {size}, but LOCAL_RANK and LOCAL_WORLD_SIZE are not set: set "
            "them too, or let aitne-run or torchrun set them all"
        )
    return _is_possible(
        _estimate_cross_rank(RankTopology(rank, size, local_rank, local_size, 0, 1, "torchrun"))
    )


# --- consistency ---------------------------------------------------------------------------------


def _check_inner(inner: RankTopology, outer: RankTopology | None, names: str) -> RankTopology:
    if outer is not None and (outer.rank, outer.size) == (inner.rank, inner.size):
        return outer  # the same values, and it names the launcher of the ranks
    if (
        outer is not None
        and outer.size > 1
        and outer.rank != inner.rank
        and outer.size == inner.size
    ):
        starter = {"slurm": "srun", "mpi": "mpirun"}[outer.source]
        raise LaunchError(
            f"{names} say rank {inner.rank} of {inner.size}, and {starter} says rank {outer.rank} of "
            f"{outer.size}. The former remain from another run: unset them"
        )
    return inner


def _refuse_alone(environ: Mapping[str, str]) -> None:
    """Raise ``LaunchError`` if variables show that there are several ranks, but not which one this
    process is.

    Processes that each consider themselves the only one would train separate models unnoticed.
    """
    several = list(_SEVERAL)
    if _is_in_step(environ):
        several.append("SLURM_STEP_NUM_TASKS")
    for name in several:
        value = hosts.parse_number(environ.get(name))
        if value is not None and value > 1:
            raise LaunchError(
                f"{name} is {value}: this is one of several tasks, and no variable says which one. A launcher's "
                "variables were lost (a container or `env -i` does that), or it belongs to another "
                "MPI. Start the program by aitne-run"
            )


def _read_place(environ: Mapping[str, str], rank_name: str, size_name: str) -> tuple[int, int]:
    for name, other in ((rank_name, size_name), (size_name, rank_name)):
        if name not in environ:
            raise LaunchError(
                f"{name} is not set, but it is necessary to determine the rank of this process"
                + (f", as is {other}, which is {environ[other]!r}" if other in environ else "")
                + ": start the program by aitne-run, or unset the variables of another run"
            )
    rank, size = _read_number(environ, rank_name), _read_number(environ, size_name)
    if rank >= size:
        raise LaunchError(
            f"{rank_name} is {rank} and {size_name} is {size}: ranks count from 0, so there is no such rank. "
            "Unset the variables of another run"
        )
    return rank, size


def _read_number(environ: Mapping[str, str], name: str) -> int:
    value = environ.get(name)
    if value is None:
        raise LaunchError(f"{name} is not set: start the program by aitne-run")
    integer = hosts.parse_number(value)
    if integer is None:
        raise LaunchError(f"{name} is {value[:80]!r}, which is not the number of a rank: unset it")
    return integer


def _is_in_step(environ: Mapping[str, str]) -> bool:
    step = hosts.parse_number(environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID"))
    return step is not None and step <= _LAST_STEP


def _is_possible(world: RankTopology) -> RankTopology:
    if world.local_size > world.size or world.cross_size > world.size:
        raise LaunchError(
            f"rank {world.rank} of {world.size} cannot be one of {world.local_size} on its node on "
            f"{world.cross_size} nodes: the variables remain from different runs; unset them"
        )
    return world
