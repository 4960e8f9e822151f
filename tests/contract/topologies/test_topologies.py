"""The contract of topology sources: they read their own files and explain why they refuse others.

The only error that they raise is `TopologyError`.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitne.bootstrap.topology_reader import TOPOLOGIES, read_topology
from aitne.core.ports.topology_source import TopologySource
from aitne_train.topology.errors import TopologyError
from aitne_train.topology.node_topology import weigh_link
from tests.support.topologies import ASSETS, sysfs

FILES = sorted(
    path
    for path in ASSETS.rglob("*")
    if path.is_file() and path.suffix in (".txt", ".conf", ".yaml", ".xml")
)
IDS = [str(path.relative_to(ASSETS)) for path in FILES]


@pytest.fixture(params=TOPOLOGIES.names())
def source(request: pytest.FixtureRequest) -> TopologySource:
    return TOPOLOGIES.get(request.param)()


@pytest.fixture
def recorded(source: TopologySource, tmp_path: Path) -> list[Path]:
    """Return the files or folders in the format of the source."""
    if source.name == "sysfs":
        return [sysfs(tmp_path / "sys")]
    return [path for path in FILES if path.parent.name == source.name]


def test_source_reads_its_recorded_files(source: TopologySource, recorded: list[Path]) -> None:
    assert recorded
    for path in recorded:
        part = source.read(path)
        assert part.switches or part.nodes
        for switch in part.switches:
            assert switch.source.file == str(path)
            assert switch.source.line > 0
        for node in part.nodes:
            assert node.source == str(path)
            assert node.numa_nodes or node.links


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_file_is_recognized_by_its_source_alone(path: Path) -> None:
    head = path.read_text()[:4_096]
    sources = [TOPOLOGIES.get(name)() for name in TOPOLOGIES.names()]
    assert [each.name for each in sources if each.recognizes(path, head)] == [path.parent.name]


def test_source_refuses_what_is_no_file(source: TopologySource, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="missing"):
        source.read(tmp_path / "missing")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n", b"\x00\xff\xfe", b"hello\n", b"<topology>", b"SwitchName=\n", b"[[[["],
    ids=["empty", "blank", "binary", "words", "xml", "no name", "nested"],
)
@pytest.mark.parametrize("suffix", ["", ".yaml", ".xml"])
def test_source_refuses_other_content_with_the_file_and_a_remedy(
    source: TopologySource, content: bytes, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    with pytest.raises(TopologyError) as caught:
        source.read(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith(".")


def test_source_refuses_a_file_without_bounds(source: TopologySource, tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(TopologyError, match=r"large.*\."):
        source.read(path)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(data=st.data())
def test_source_raises_nothing_but_its_error_for_damaged_files(
    source: TopologySource, recorded: list[Path], data: st.DataObject, tmp_path: Path
) -> None:
    if source.name == "sysfs":
        return
    path = data.draw(st.sampled_from(recorded))
    text = path.read_text()[:6_000]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 200, len(text))))
    damaged = tmp_path / f"damaged{path.suffix}"
    damaged.write_text(text[:start] + data.draw(st.text(max_size=4)) + text[end:])
    with contextlib.suppress(TopologyError):
        source.read(damaged)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_truncated_file_is_refused(path: Path, tmp_path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    cut = tmp_path / path.name
    cut.write_text("".join(lines[: len(lines) // 4]) + lines[len(lines) // 4][:7])
    with pytest.raises(TopologyError, match=str(cut)):
        read_topology([cut])


# --- switches and blocks -------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_conf_and_output_of_slurm_describe_the_same_tree(release: str) -> None:
    conf = read_topology([ASSETS / "slurm_file" / "fattree_interleaved.conf"]).tree
    shown = read_topology([ASSETS / "slurm" / f"tree-{release}.txt"]).tree
    assert conf is not None
    assert shown is not None
    assert dict(conf.leaf_of) == dict(shown.leaf_of)
    assert dict(conf.parents) == dict(shown.parents)
    assert len(conf.leaf_of) == 24
    assert conf.roots == ("spine",)


@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_conf_and_output_of_slurm_combine_blocks_alike(release: str) -> None:
    conf = read_topology([ASSETS / "slurm_file" / "blocks.conf"]).tree
    shown = read_topology([ASSETS / "slurm" / f"blocks-{release}.txt"]).tree
    assert conf is not None
    assert shown is not None
    assert dict(conf.leaf_of) == dict(shown.leaf_of)
    for block in ("b1", "b4", "b5", "b8"):
        for other in ("b1", "b2", "b3", "b6", "b7"):
            below = [
                {leaf for leaf in tree.leaf_of.values() if ancestor in tree.find_path(leaf)}
                for tree in (conf, shown)
                for ancestor in [tree.find_common_ancestor(block, other)]
            ]
            assert below[0] == below[1]


def test_yaml_and_output_of_slurm_describe_the_same_tree() -> None:
    conf = read_topology([ASSETS / "slurm_file" / "several.yaml"]).tree
    shown = read_topology([ASSETS / "slurm" / "yaml-26.05.txt"]).tree
    assert conf is not None
    assert shown is not None
    assert dict(conf.leaf_of) == dict(shown.leaf_of)
    assert dict(conf.parents) == dict(shown.parents)


def test_blocks_are_below_the_larger_blocks_that_combine_them() -> None:
    tree = read_topology([ASSETS / "slurm_file" / "blocks.conf"]).tree
    assert tree is not None
    assert tree.find_path("b5") == ("(b1 to b8)", "(b5 to b8)", "(b5 to b6)", "b5")
    shown = read_topology([ASSETS / "slurm" / "blocks-25.11.txt"]).tree
    assert shown is not None
    assert shown.roots == ("gb300_b[0-1]",)
    assert shown.leaf_of["10.140.79.152"] == "gb300_b1"


def test_yaml_default_topology_is_read() -> None:
    tree = read_topology([ASSETS / "slurm_file" / "several.yaml"]).tree
    assert tree is not None
    assert dict(tree.leaf_of) == {"node01": "s1", "node02": "s1", "node03": "s2", "node04": "s2"}
    source = tree.find_source("s2")
    assert source is not None
    assert source.line == 6


def test_yaml_is_read_as_slurm_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(
        "- topology: b\n  flat: True\n- topology: a\n  cluster_default: True\n  tree:\n    switches:\n"
        "    - switch: s1\n      nodes: n1\n      children: s2\n    - switch: s2\n      nodes: n2\n"
    )
    tree = read_topology([path]).tree
    assert tree is not None
    assert dict(tree.leaf_of) == {"n1": "s1", "n2": "s2"}
    assert tree.fabrics == ("s1", "s2")


YAML = "- topology: a\n  tree:\n    switches:\n"


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (YAML + "      - switch: s1\n        nodes: n[1-\n", 4, "bracket"),
        (YAML + "      - switch: s1\n        nodes: n[0-999999999]\n", 4, "too long"),
        (YAML + "      - &a {switch: s1, nodes: n1}\n      - *a\n", 5, "alias"),
        (YAML + "      - switch: s1\n        switch: s2\n", 5, "given twice"),
        (YAML + "      - switch: s1\n      - switch: s2\n", 4, "no nodes"),
        ("- topology: a\n  flat: true\n", 1, "flat"),
        ("- topology: a\n  ring:\n    rings: []\n", 1, "ring"),
        ("- topology: a\n  tree: [}\n", 2, "not valid YAML"),
        ("- " * 40 + "a", 1, "nested too deeply"),
        ("topology: a\n", 1, "a list is expected"),
    ],
)
def test_yaml_errors_name_the_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    with pytest.raises(TopologyError, match=problem) as caught:
        read_topology([path])
    assert f"{path}, line {line}: " in str(caught.value)


# --- nodes ---------------------------------------------------------------------------------------


def test_hwloc_file_of_a_node_with_nvlink() -> None:
    topology = read_topology([ASSETS / "hwloc" / "power8-4gpus.xml"])
    node = topology.nodes["drac-12"]
    assert [numa.index for numa in node.numa_nodes] == [0, 1]
    assert node.numa_nodes[0].cpus == (0, 1, 8, 9, 16, 17, 24, 25)
    assert node.numa_nodes[1].cpus[:2] == (80, 81)
    assert [(gpu.pci, gpu.numa) for gpu in node.gpus] == [
        ("0002:01:00.0", 0),
        ("0003:01:00.0", 0),
        ("000a:01:00.0", 1),
        ("000b:01:00.0", 1),
    ]
    assert node.links["GPU0", "GPU1"] == node.links["GPU3", "GPU2"] == "NV2"
    assert node.links["GPU0", "GPU2"] == "SYS"


def test_hwloc_file_of_a_node_with_pcie_switches() -> None:
    node = next(iter(read_topology([ASSETS / "hwloc" / "dgx2-16gpus.xml"]).nodes.values()))
    assert len(node.gpus) == 16
    kinds = [node.links["GPU0", f"GPU{other}"] for other in (1, 2, 4, 8)]
    assert kinds == ["PIX", "PXB", "NODE", "SYS"]
    assert [gpu.numa for gpu in node.gpus] == [0] * 8 + [1] * 8
    assert node.find_nearest_nic(2) is None  # the file has no network interface


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ('<!DOCTYPE topology [<!ENTITY a "b">]>', "document type of its own"),
        ('<!DOCTYPE topology [<!ENTITY a SYSTEM "file:///etc/passwd">]>', "document type"),
        (
            '<!DOCTYPE t [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>',
            "document type",
        ),
    ],
    ids=["entity", "external", "bomb"],
)
def test_hwloc_file_with_entities_is_refused(tmp_path: Path, head: str, problem: str) -> None:
    path = tmp_path / "node.xml"
    path.write_text(f'<?xml version="1.0"?>\n{head}\n<topology version="2.0">&a;</topology>')
    with pytest.raises(TopologyError, match=problem) as caught:
        read_topology([path])
    assert "line 2" in str(caught.value)


def test_hwloc_file_of_version_1_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.xml"
    path.write_text("<topology><object type='Machine'/></topology>")
    with pytest.raises(TopologyError, match="hwloc 2 or newer"):
        read_topology([path])


def test_nvidia_matrix_gives_links_and_affinities() -> None:
    node = read_topology([ASSETS / "nvidia" / "v100-8gpus.txt"]).nodes["localhost"]
    assert node.links["GPU0", "GPU7"] == "NV2"
    assert node.links["GPU0", "GPU4"] == "SYS"
    assert [gpu.numa for gpu in node.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert node.numa_nodes[1].cpus[0] == 24
    near = node.find_nearest_nic(6)
    assert near is not None
    assert near.name == "mlx5_1"
    weights = [weigh_link(node.links.get(("GPU0", f"GPU{other}"))) for other in range(3)]
    assert weights == [0, 25, 50]


def test_nvidia_matrix_names_nics_by_its_legend() -> None:
    node = read_topology([ASSETS / "nvidia" / "legend-2gpus.txt"]).nodes["localhost"]
    assert [nic.name for nic in node.nics][:2] == ["rocep4s0f0", "rocep4s0f1"]
    assert node.links["GPU1", "rocep137s0f0"] == "PHB"


def test_nvidia_matrix_may_be_a_copy_with_spaces(tmp_path: Path) -> None:
    path = tmp_path / "copy.txt"
    path.write_text(
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity\n"
        "GPU0     X      NV12    48-63,176-191   3\n"
        "GPU1    NV12     X      48-63,176-191   3\n"
    )
    node = read_topology([path]).nodes["localhost"]
    assert node.links == {("GPU0", "GPU1"): "NV12", ("GPU1", "GPU0"): "NV12"}
    assert node.numa_nodes[0].index == 3


def test_nvidia_matrix_is_read_as_terminals_copy_it() -> None:
    node = read_topology([ASSETS / "nvidia" / "copied-2gpus.txt"]).nodes["localhost"]
    assert [(numa.index, numa.cpus[0], len(numa.cpus)) for numa in node.numa_nodes] == [
        (3, 48, 32),
        (7, 112, 32),
    ]
    assert node.links["GPU1", "mlx5_9"] == node.links["mlx5_9", "GPU1"] == "NODE"
    node = read_topology([ASSETS / "nvidia" / "stripped-2gpus.txt"]).nodes["localhost"]
    assert [gpu.numa for gpu in node.gpus] == [0, 0]
    assert node.links["GPU0", "mlx5_0"] == "PHB"
    node = read_topology([ASSETS / "nvidia" / "old-4gpus.txt"]).nodes["localhost"]
    assert node.links["GPU0", "GPU1"] == "PIX"
    assert node.links["GPU0", "GPU2"] == "SYS"


HEADING = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
ROW_1 = "GPU1\tPIX\t X \t4-7\t1\t\tN/A\n"


@pytest.mark.parametrize(
    ("heading", "row", "cpus", "numa"),
    [
        (HEADING, "GPU0\t X \tPIX\t0-3\t0\t\tN/A\n", (0, 1, 2, 3), 0),
        (HEADING, "GPU0\t X \tPIX\t\t0\t\tN/A\n", (), 0),
        (HEADING, "GPU0\t X \tPIX\tN/A\tN/A\t\tN/A\n", (), None),
        (HEADING, "GPU0\t X \tPIX\t\t\t\t\n", (), None),
        (HEADING, "GPU0\t X \tPIX\n", (), None),
        (HEADING, "  GPU0 X PIX 0-3 0 N/A \n", (0, 1, 2, 3), 0),
        (HEADING, "GPU0\t X \tPIX\t0-3 0\tN/A\n", (0, 1, 2, 3), 0),
        (HEADING.expandtabs(), "GPU0     X      PIX                     0\n", (), 0),
        ("[4mGPU0 GPU1 CPU Affinity NUMA Affinity[0m\n", "GPU0 X PIX 0-3 0\n", (0, 1, 2, 3), 0),
    ],
    ids=["tabs", "no CPUs", "N/A", "empty", "cut", "blanks", "mixed", "aligned", "no escape"],
)
def test_nvidia_row_may_lack_cells(
    tmp_path: Path, heading: str, row: str, cpus: tuple[int, ...], numa: int | None
) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(heading + row + ROW_1)
    node = read_topology([path]).nodes["localhost"]
    assert [gpu.numa for gpu in node.gpus] == [numa, 1]
    own = [each.cpus for each in node.numa_nodes if each.index == numa]
    assert own == ([cpus] if cpus else [])


def test_sysfs_finds_numa_nodes_and_nics(tmp_path: Path) -> None:
    node = read_topology([sysfs(tmp_path)]).nodes["localhost"]
    assert node.numa_nodes[0].cpus == (0, 1)
    assert [(nic.name, nic.pci) for nic in node.nics] == [("eth0", "0000:00:03.0")]


def test_sysfs_finds_gpus_and_the_distance_to_the_nic(tmp_path: Path) -> None:
    folder = sysfs(tmp_path)
    bridge = "devices/pci0000:2b/0000:2b:00.0/0000:2c:00.0"
    for port, address, kind, vendor in (
        ("0000:2d:04.0", "0000:34:00.0", "0x030200", "0x10de"),
        ("0000:2d:08.0", "0000:36:00.0", "0x030200", "0x10de"),
        ("0000:2d:0c.0", "0000:37:00.0", "0x020700", "0x15b3"),
    ):
        device = folder / bridge / port / address
        device.mkdir(parents=True)
        (device / "class").write_text(f"{kind}\n")
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "numa_node").write_text("0\n")
        (folder / "bus" / "pci" / "devices" / address).symlink_to(device)
    fabric = folder / bridge / "0000:2d:0c.0/0000:37:00.0/infiniband/mlx5_0"
    fabric.mkdir(parents=True)
    (folder / "class" / "infiniband").mkdir()
    (folder / "class" / "infiniband" / "mlx5_0").symlink_to(fabric)
    node = read_topology([folder]).nodes["localhost"]
    assert [(gpu.name, gpu.pci, gpu.numa) for gpu in node.gpus] == [
        ("GPU0", "0000:34:00.0", 0),
        ("GPU1", "0000:36:00.0", 0),
    ]
    assert node.links["GPU0", "GPU1"] == "PIX"
    near = node.find_nearest_nic(0)
    assert near is not None
    assert near.name == "mlx5_0"


# --- several sources -----------------------------------------------------------------------------


def test_sources_are_merged_with_the_source_of_each_edge(tmp_path: Path) -> None:
    lower = tmp_path / "lower.conf"
    lower.write_text("SwitchName=leaf0 Nodes=n[1-2]\nSwitchName=leaf1 Nodes=n[3-4]\n")
    upper = tmp_path / "upper.conf"
    upper.write_text("SwitchName=core Switches=leaf[0-1]\n")
    topology = read_topology([lower, upper, ASSETS / "hwloc" / "power8-4gpus.xml"])
    assert topology.tree is not None
    assert str(topology.tree.find_source("n3")) == f"{lower}, line 2"
    assert str(topology.tree.find_source("leaf1")) == f"{upper}, line 1"
    assert topology.tree.find_source("core") is None
    assert list(topology.nodes) == ["drac-12"]


def test_sources_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text("SwitchName=leaf0 Nodes=n[1-2]\n")
    second.write_text("# other\nSwitchName=leaf0 Nodes=n[1-3]\n")
    with pytest.raises(TopologyError, match="differs") as caught:
        read_topology([first, second])
    assert f"{second}, line 2: " in str(caught.value)
    assert f"{first}, line 1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SwitchName=other Nodes=n[2-3]\n", "node n2 is on other, and on leaf0"),
        ("SwitchName=other Nodes=n1.example.org\n", "node n1.example.org is on other"),
        ("SwitchName=other Switches=leaf0\n", "switch leaf0 is below other, and below core"),
    ],
)
def test_place_in_the_network_has_one_source(tmp_path: Path, text: str, problem: str) -> None:
    first, second = tmp_path / "first.conf", tmp_path / "second.conf"
    first.write_text("SwitchName=leaf0 Nodes=n[1-2]\nSwitchName=core Switches=leaf0\n")
    second.write_text(text)
    with pytest.raises(TopologyError, match=problem) as caught:
        read_topology([first, second])
    assert f"{second}, line 1: " in str(caught.value)
    second.write_text("SwitchName=eth Nodes=cpu[1-2]\n")
    tree = read_topology([first, second]).tree
    assert tree is not None
    assert tree.fabrics == ("core", "eth")


def test_descriptions_of_one_node_complete_each_other(tmp_path: Path) -> None:
    matrix = tmp_path / "topo.txt"
    matrix.write_text(
        "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n"
        + "".join(
            f"GPU{row}\t"
            + "\t".join(" X " if row == column else "NV4" for column in range(4))
            + "\t0-3\t0\n"
            for row in range(4)
        )
    )
    node = read_topology([ASSETS / "hwloc" / "power8-4gpus.xml", matrix]).nodes["drac-12"]
    assert node.links["GPU0", "GPU2"] == "NV4"
    assert node.gpus[2].pci == "000a:01:00.0"
    with pytest.raises(TopologyError, match=r"4 GPUs and .* 16"):
        read_topology(
            [matrix, ASSETS / "hwloc" / "dgx2-16gpus.xml"],
        )


def test_file_of_no_known_format_lists_the_formats(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("two switches, I think\n")
    with pytest.raises(TopologyError, match="gres, hwloc, nvidia, slurm, slurm_file, sysfs"):
        read_topology([path])
