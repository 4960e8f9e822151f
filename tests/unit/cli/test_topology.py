"""Topologies on the command line, without a platform."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.support.fake_api import JOB_ID, FakeApi, job, page
from tests.support.topologies import ASSETS
from tests.unit.cli.conftest import Aitne

CONF = str(ASSETS / "slurm_file" / "fattree_interleaved.conf")


def test_topology_order_prints_the_order_and_both_costs(aitne: Aitne) -> None:
    done = aitne("topology", "order", "--file", CONF, "--nodes", "gpu[00-05]", "--json")
    assert done.status == 0
    assert done.json == {
        "order": ["gpu00", "gpu04", "gpu01", "gpu05", "gpu02", "gpu03"],
        "crossings": {"given": 6, "chosen": 4},
        "busiest_uplink": {"given": 2, "chosen": 1},
        "unknown": [],
    }
    text = aitne("topology", "order", "--file", CONF, "--nodes", "gpu[00-05]")
    assert text.out == "gpu[00,04,01,05,02-03]\n"
    assert "rank order: 6 -> 4 crossings, busiest uplink 2 -> 1" in text.err


def test_topology_order_takes_a_mesh(aitne: Aitne) -> None:
    args = ("topology", "order", "--file", CONF, "--nodes", "gpu[00-07]", "--json")
    done = aitne(*args, "--mesh", "tensor=2,data=4")
    assert done.json["crossings"]["chosen"] < done.json["crossings"]["given"]
    for mesh, problem in (("tensor=3", "3 ranks"), ("3", "is not a mesh")):
        refused = aitne(*args, "--mesh", mesh)
        assert refused.status == 2
        assert problem in refused.err


def test_topology_errors_have_file_and_line(aitne: Aitne, tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n")
    for args in (("show", "--file", str(path)), ("order", "--file", str(path), "--nodes", "n1")):
        done = aitne("topology", *args)
        assert done.status == 2
        assert f"{path}, line 2: the switch a is defined again" in done.err
    empty = aitne("topology", "order", "--file", CONF, "--nodes", "")
    assert (empty.status, "names no node" in empty.err) == (2, True)


def test_topology_show_lists_switches_and_devices(aitne: Aitne) -> None:
    node = str(ASSETS / "nvidia" / "v100-8gpus.txt")
    done = aitne("topology", "show", "--file", CONF, "--file", node)
    assert "spine\n  leaf0  gpu[00,04,08,12,16,20]\n" in done.out
    assert "NUMA node 1: 48 CPUs  GPU4 GPU5 GPU6 GPU7" in done.out
    assert "GPU0  NV1:2 NV2:2 SYS:3  nearest mlx5_0" in done.out
    document = aitne("topology", "show", "--file", CONF, "--json").json
    leaf = next(each for each in document["switches"] if each["name"] == "leaf1")
    assert leaf["parent"] == "spine"
    assert (leaf["source"], leaf["nodes_source"]) == (f"{CONF}, line 6", f"{CONF}, line 3")


def test_topology_of_two_fabrics_is_shown_and_drawn(aitne: Aitne, tmp_path: Path) -> None:
    path, picture = tmp_path / "topology.conf", tmp_path / "t.svg"
    path.write_text(
        "SwitchName=eth Nodes=c[1-2],g1\nSwitchName=core Switches=ib[1-2]\n"
        "SwitchName=ib1 Nodes=g[1-2]\nSwitchName=ib2 Nodes=g[3-4]\n"
    )
    done = aitne("topology", "show", "--file", str(path), "--svg", str(picture))
    assert done.out == "eth  c[1-2],g1\ncore\n  ib1  g2\n  ib2  g[3-4]\n"
    assert done.err.splitlines() == [
        "Several leaves have g1: the first leaf counts.",
        "No switch connects eth, core: jobs do not span them.",
    ]
    root = ET.fromstring(picture.read_text())
    names = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"eth", "core", "ib1", "ib2"} <= set(names)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}line"))) == 2
    args = ("topology", "order", "--file", str(path), "--nodes", "g[1-4],c1")
    assert aitne(*args).err.strip().endswith("; no switch connects eth, core")


def test_topology_picture_has_every_switch(aitne: Aitne, tmp_path: Path) -> None:
    picture = tmp_path / "t.svg"
    assert aitne("topology", "show", "--file", CONF, "--svg", str(picture)).status == 0
    root = ET.fromstring(picture.read_text())
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "5 switches and 24 nodes"
    assert "leaf3: gpu[03,07,11,15,19,23]" in titles
    node = str(ASSETS / "hwloc" / "power8-4gpus.xml")
    refused = aitne("topology", "show", "--file", node, "--svg", str(picture))
    assert (refused.status, "no switches" in refused.err) == (2, True)


def test_topology_show_of_a_job_has_its_order_and_bindings(
    aitne: Aitne, api: FakeApi, tmp_path: Path
) -> None:
    placement = {
        "given": ["n1", "n2", "n3", "n4"],
        "order": ["n1", "n3", "n2", "n4"],
        "crossings": {"given": 4, "chosen": 2, "best": 2},
        "busiest_uplink": {"given": 2, "chosen": 1, "best": 1},
        "switches": [
            {"name": "a", "parent": "top"},
            {"name": "b", "parent": "top"},
            {"name": "top", "parent": None},
        ],
        "leaves": {"n1": "a", "n2": "b", "n3": "a", "n4": "b"},
        "bindings": [
            {"rank": 0, "node": "n1", "cores": "0-3", "numa": 0, "gpu": 1, "nic": "mlx5_0"},
            {"rank": 1, "node": "n3", "cores": None, "numa": None, "gpu": None, "nic": None},
        ],
        "reason": "Rank order: 4 -> 2 crossings.",
    }
    api.on("GET", "/jobs", page(job()))
    api.on("GET", f"/jobs/{JOB_ID}", job())
    api.on("GET", f"/jobs/{JOB_ID}/placement", placement)
    picture = tmp_path / "t.svg"
    done = aitne("topology", "show", "--job", JOB_ID, "--svg", str(picture))
    assert done.out.splitlines() == [
        "Rank order: 4 -> 2 crossings.",
        "given   n[1-4]",
        "order   n[1,3,2,4]",
        "crossings: given 4, chosen 2, best known 2",
        "busiest uplink: given 2, chosen 1, best known 1",
        "   0  n1  a",
        "      rank 0  CPUs 0-3  NUMA node 0  GPU 1  interface mlx5_0",
        "   1  n3  a",
        "      rank 1  not bound",
        "   2  n2  b",
        "   3  n4  b",
    ]
    texts = [each.text for each in ET.parse(picture).iter() if each.tag.endswith("}text")]
    assert "0: n1, 1: n3" in texts
    assert aitne("topology", "show", "--job", JOB_ID, "--json").json == placement
    unknown = {**placement, "switches": [], "leaves": {}}
    api.on("GET", f"/jobs/{JOB_ID}/placement", unknown)
    refused = aitne("topology", "show", "--job", JOB_ID, "--svg", str(picture))
    assert (refused.status, "is not known" in refused.err) == (2, True)
