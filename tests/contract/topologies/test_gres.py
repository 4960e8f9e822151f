"""The reader of Slurm's ``gres.conf``: what it takes from the file, and what it refuses."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.bootstrap.topology_reader import read_topology
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import NodeTopology, parse_cpu_list
from tests.support.topologies import ASSETS


def gpu_cpus(node: NodeTopology, gpu: int) -> tuple[int, ...]:
    """Return the CPUs on the NUMA node of a GPU."""
    (numa,) = (each for each in node.numa_nodes if each.index == node.gpus[gpu].numa)
    return numa.cpus


def test_gres_file_gives_cores_and_links() -> None:
    node = read_topology([ASSETS / "gres" / "links-8gpus.conf"]).nodes["localhost"]
    assert node.links["GPU1", "GPU2"] == "NV2"
    assert node.links["GPU5", "GPU3"] == node.links["GPU3", "GPU5"] == "NV1"
    assert ("GPU0", "GPU3") not in node.links
    assert node.numa_nodes[0].cpus == (0, 1, 2, 3)
    node = read_topology([ASSETS / "gres" / "manual-4gpus.conf"]).nodes["localhost"]
    assert [gpu.numa for gpu in node.gpus] == [0, 0, 1, 1]
    nodes = read_topology([ASSETS / "gres" / "nodes-2gpus.conf"]).nodes
    assert list(nodes) == ["node0"]  # the others have neither cores nor links
    assert gpu_cpus(nodes["node0"], 1) == tuple(range(16, 32))


@st.composite
def gres_files(draw: st.DrawFn) -> tuple[str, dict[str, tuple[list[str], list[list[int]]]]]:
    """Return the text of a gres.conf, and the cores and links of the GPUs of each node in it. The
    lines of a node are in any order; the place of -1 is the number of the GPU.
    """
    lines: list[str] = []
    described = {}
    for name in draw(st.lists(st.sampled_from(["n1", "gpu-2", "x.y"]), unique=True, min_size=1)):
        count = draw(st.integers(1, 8))
        cores = [draw(st.sampled_from(["0-3", "4-7", "8,10"])) for _ in range(count)]
        links = [[-1 if one == other else 0 for other in range(count)] for one in range(count)]
        for one in range(count):
            for other in range(one):
                links[one][other] = links[other][one] = draw(st.integers(0, 18))
        described[name] = (cores, links)
        for index in draw(st.permutations(range(count))):
            fields = [
                f"NodeName={name}",
                "Name=gpu",
                draw(st.sampled_from(["", "Type=a100", "AutoDetect=nvml", "Flags=env_uuid"])),
                draw(st.sampled_from([f"File=/dev/nvidia{index}", "Count=1"])),
                draw(st.sampled_from(["Cores", "COREs", "CPUs"])) + f"={cores[index]}",
                f"Links={','.join(map(str, links[index]))}",
            ]
            lines.append(draw(st.sampled_from([" ", "  ", " \\\n  "])).join(filter(None, fields)))
            lines += draw(
                st.lists(st.sampled_from(["# a comment", "Name=mps Count=100", "AutoDetect=rsmi"]))
            )
    return "\n".join(lines) + "\n", described


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=30,
    deadline=None,
)
@given(written=gres_files())
def test_gres_file_is_read_as_it_was_written(
    written: tuple[str, dict[str, tuple[list[str], list[list[int]]]]], tmp_path: Path
) -> None:
    text, described = written
    path = tmp_path / "gres.conf"
    path.write_text(text)
    nodes = read_topology([path]).nodes
    assert set(nodes) == set(described)
    for name, (cores, links) in described.items():
        node = nodes[name]
        assert [gpu_cpus(node, gpu) for gpu in range(len(cores))] == [*map(parse_cpu_list, cores)]
        assert node.links == {
            (f"GPU{one}", f"GPU{other}"): f"NV{links[one][other]}"
            for one, other in permutations(range(len(links)), 2)
            if links[one][other] > 0
        }


GPU = "Name=gpu File=/dev/nvidia0 Cores=0-3\n"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (GPU + "Include other.conf\n", 2, "includes another file"),
        (GPU + "Name=gpu Plane=1\n", 2, "plane is not a key"),
        (GPU + "NodeName=n1\n", 2, "names no resource"),
        (GPU + "NodeName= Name=gpu\n", 2, "names no node"),
        ("NodeName=n[0-999999999] Name=gpu Cores=0\n", 1, "too long"),
        ("NodeName=n[1-60000] Name=gpu Cores=0\n" * 5, 4, "more than 200000 names"),
        ("Name=gpu File=/dev/nvidia[0-999999999] Cores=0\n", 1, "too long"),
        ("Name=gpu File=/dev/nvidia[0-999] Cores=0\n", 1, "more than 256 GPUs"),
        ("Name=gpu Count=9999 Cores=0\n", 1, "more than 256 GPUs"),
        ("Name=gpu Count=many Cores=0\n", 1, "not a number of GPUs"),
        ("Name=gpu Count=3 File=/dev/nvidia[0-1] Cores=0\n", 1, "Count is 3, and File names 2"),
        ("Name=gpu File=nvidia0 Cores=0\n", 1, "not a device file"),
        (GPU + "Name=gpu Cores=3-1\n", 2, "not a list of CPUs"),
        (GPU + "Name=gpu Cores=0-99999999\n", 2, "not a list of CPUs"),
        ("".join(f"Name=gpu Cores={n}-65000\n" for n in range(20)), 17, "1048576 cores"),
        (GPU + "Name=gpu Links=4,4\n", 2, "with one -1"),
        (GPU + "Name=gpu Links=-1,-1\n", 2, "with one -1"),
        (GPU + "Name=gpu Links=-1,x\n", 2, "with one -1"),
        ("Name=gpu File=/dev/nvidia[0-1] Links=-1,4\n", 1, "not the links of 2 GPUs"),
        (GPU + "Name=gpu Links=4,4,-1\n", 2, "3 numbers of links, and its node has 2 GPUs"),
        ("Name=gpu Links=-1,4\nName=gpu Links=-1,4\n", 2, "links in line 1 already"),
        ("Name=gpu Links=-1,4\nName=gpu Links=2,-1\n", 1, "4 links to GPU 1, which has 2"),
        ("Name=gpu Cores=0 Cores=1\n", 1, "given twice"),
        (GPU * 255 + "NodeName=n[1-50000] Name=mps\n", 255, "1000000 GPUs and links"),
    ],
)
def test_gres_errors_name_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "gres.conf"
    path.write_text(text)
    with pytest.raises(TopologyError, match=problem) as caught:
        read_topology([path])
    assert f"{path}, line {line}: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("AutoDetect=nvml\n", "AutoDetect finds them on the node, and its jobs report them"),
        ("Name=gpu File=/dev/nvidia[0-3]\n", "Write lines such as"),
        (GPU + "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21\n", "Write"),
    ],
    ids=["AutoDetect", "no cores", "parts of GPUs"],
)
def test_gres_file_without_cores_and_links_is_refused(
    tmp_path: Path, text: str, remedy: str
) -> None:
    path = tmp_path / "gres.conf"
    path.write_text(text)
    with pytest.raises(TopologyError, match=remedy):
        read_topology([path])


def test_gres_file_only_adds_to_what_was_found_on_the_node(tmp_path: Path) -> None:
    gres = tmp_path / "gres.conf"
    gres.write_text(
        "".join(
            f"NodeName=drac-12 Name=gpu Cores={4 * gpu}-{4 * gpu + 3} "
            f"Links={','.join('-1' if other == gpu else '4' for other in range(4))}\n"
            for gpu in range(4)
        )
    )
    hwloc = ASSETS / "hwloc" / "power8-4gpus.xml"
    alone, both = read_topology([hwloc]), read_topology([gres, hwloc])
    assert both.nodes["drac-12"].links == alone.nodes["drac-12"].links  # it knows NVLink
    assert both.nodes["drac-12"].gpus == alone.nodes["drac-12"].gpus
    assert both.nodes["drac-12"].numa_nodes == alone.nodes["drac-12"].numa_nodes
    matrix = tmp_path / "topo.txt"
    matrix.write_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tSYS\t0-3\t1\nGPU1\tSYS\t X \t4-7\t0\n"
    )
    gres.write_text("Name=gpu Cores=0-3 Links=-1,4\nName=gpu Cores=4-7 Links=4,-1\n")
    node = read_topology([gres, matrix]).nodes["localhost"]
    assert node.links["GPU0", "GPU1"] == "NV4"  # the other file has PCIe only
    assert [gpu.numa for gpu in node.gpus] == [1, 0]
    gres.write_text("Name=gpu Cores=0-3\n")
    assert len(read_topology([gres, matrix]).nodes["localhost"].gpus) == 2  # one is out of service
