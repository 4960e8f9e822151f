"""The CPUs that a node's ranks are bound to, and the order of its GPUs."""

from __future__ import annotations

from pathlib import Path

from aitne_train.launcher.binding import plan_bindings, sort_by_core
from aitne_train.topology.node_topology import Device, NodeTopology, NumaNode

TWO_NUMA_NODES = NodeTopology(
    None,
    "/sys",
    numa_nodes=(NumaNode(0, (0, 1, 2, 3)), NumaNode(1, (4, 5, 6, 7))),
    gpus=tuple(Device(f"GPU{index}", None, numa) for index, numa in enumerate((1, 0, 1, 0))),
    nics=(Device("mlx5_0", None, 0), Device("mlx5_1", None, 1)),
    links={
        (f"GPU{index}", f"mlx5_{nic}"): "PIX" if nic == numa else "SYS"
        for index, numa in enumerate((1, 0, 1, 0))
        for nic in (0, 1)
    },
)
CPUS = list(range(8))


def test_ranks_get_cpus_of_the_numa_node_of_their_gpu() -> None:
    bound = plan_bindings("auto", CPUS, 4, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, TWO_NUMA_NODES)
    # GPUs of one NUMA node follow each other, as ranks do; all remain visible.
    assert bound.variables == {"CUDA_VISIBLE_DEVICES": "0,2,1,3"}
    assert [(each.gpu, each.numa, each.cpus, each.nic) for each in bound.ranks] == [
        (0, 1, [4, 5], "mlx5_1"),
        (2, 1, [6, 7], "mlx5_1"),
        (1, 0, [0, 1], "mlx5_0"),
        (3, 0, [2, 3], "mlx5_0"),
    ]
    assert bound.ranks[0].to_json(8, "gpu03") == {
        "rank": 8,
        "node": "gpu03",
        "cores": "4-5",
        "numa": 1,
        "gpu": 0,
        "nic": "mlx5_1",
    }


def test_ranks_get_even_parts_where_their_gpus_are_unknown() -> None:
    for environ in ({"CUDA_VISIBLE_DEVICES": "GPU-1b,GPU-2c"}, {"CUDA_VISIBLE_DEVICES": ""}):
        bound = plan_bindings("auto", CPUS, 2, environ, TWO_NUMA_NODES)
        assert bound.variables == {}
        assert [(each.cpus, each.numa, each.gpu) for each in bound.ranks] == [
            ([0, 1, 2, 3], 0, None),
            ([4, 5, 6, 7], 1, None),
        ]
    bound = plan_bindings("cores", CPUS, 3, {"CUDA_VISIBLE_DEVICES": "0,1,2"}, TWO_NUMA_NODES)
    assert [each.cpus for each in bound.ranks] == [[0, 1], [2, 3, 4], [5, 6, 7]]
    assert [each.numa for each in bound.ranks] == [1, 0, 1]
    # A cgroup without CPUs of one NUMA node.
    bound = plan_bindings("auto", [0, 1], 2, {"CUDA_VISIBLE_DEVICES": "0,1"}, TWO_NUMA_NODES)
    assert [each.cpus for each in bound.ranks] == [[0], [1]]


def test_gpus_of_a_cgroup_are_those_that_slurm_names() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "0,1", "SLURM_STEP_GPUS": "1,3", "AITNE_NODES": "2"}
    bound = plan_bindings("auto", CPUS, 2, environ, TWO_NUMA_NODES)
    assert [(each.gpu, each.cpus) for each in bound.ranks] == [(1, [0, 1]), (3, [2, 3])]
    # Those of the job are of its first node, which may be another one.
    environ = {"CUDA_VISIBLE_DEVICES": "0,2", "SLURM_JOB_GPUS": "1,3", "AITNE_NODES": "2"}
    assert [each.gpu for each in plan_bindings("auto", CPUS, 2, environ, TWO_NUMA_NODES).ranks] == [
        0,
        2,
    ]


def test_ranks_are_not_bound_to_fewer_cpus_than_ranks() -> None:
    assert [
        each.cpus for each in plan_bindings("auto", [0], 2, {}, NodeTopology(None, "/sys")).ranks
    ] == [
        [],
        [],
    ]


def test_cpus_of_one_core_are_adjacent(tmp_path: Path) -> None:
    for cpu in range(4):
        folder = tmp_path / "devices/system/cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 2},{cpu % 2 + 2}\n")
    assert sort_by_core(range(4), NodeTopology(None, "/sys"), str(tmp_path)) == [0, 2, 1, 3]
    assert sort_by_core(range(4), NodeTopology(None, "/sys"), str(tmp_path / "none")) == [
        0,
        1,
        2,
        3,
    ]
