"""The order of the hosts of aitne-run, and what it says about it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from aitne_train.launcher import host_order, slurm_and_mpi_queries
from aitne_train.launcher.errors import LaunchError
from aitne_train.launcher.hosts import Host
from aitne_train.topology.hostlist import expand_hostlist
from tests.support.topologies import ASSETS

CONF = str(ASSETS / "slurm_file" / "fattree_interleaved.conf")
GIVEN = [Host(f"gpu{number:02}", 2) for number in range(8)]
ENVIRON = {"AITNE_TOPOLOGY": CONF}


def test_hosts_are_ordered_by_the_topology(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = host_order.order_hosts(GIVEN, "auto", ENVIRON)
    assert [host.name for host in chosen] == [
        *("gpu00", "gpu04", "gpu01", "gpu05"),
        *("gpu02", "gpu06", "gpu03", "gpu07"),
    ]
    assert capsys.readouterr().err == "aitne: rank order: 8 -> 4 crossings, busiest uplink 2 -> 1\n"
    assert host_order.order_hosts(chosen, "auto", ENVIRON) == chosen
    assert "already the best one" in capsys.readouterr().err


def test_hosts_may_have_a_domain_and_different_numbers_of_ranks() -> None:
    given = [Host(f"{host.name}.example.org", number) for number, host in enumerate(GIVEN, 1)]
    chosen = host_order.order_hosts(given, "auto", ENVIRON)
    assert [(host.name, host.ranks) for host in chosen[:3]] == [
        ("gpu00.example.org", 1),
        ("gpu04.example.org", 5),
        ("gpu01.example.org", 2),
    ]


def test_topology_may_have_names_with_a_domain(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    nodes = [",".join(f"n{number}.hpc.example.org" for number in each) for each in ((0, 2), (1, 3))]
    path.write_text(f"SwitchName=a Nodes={nodes[0]}\nSwitchName=b Nodes={nodes[1]}\n")
    given = [Host(f"n{number}", 1) for number in range(4)]
    chosen = host_order.order_hosts(given, "auto", {"AITNE_TOPOLOGY": str(path)})
    assert [host.name for host in chosen] == ["n0", "n2", "n1", "n3"]


def test_hosts_of_two_fabrics_are_ordered_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(
        "SwitchName=core Switches=ib[1-2]\nSwitchName=ib1 Nodes=n[0,3]\nSwitchName=ib2 Nodes=n[1,4]\n"
        "SwitchName=eth Nodes=n[2,5]\n"
    )
    given = [Host(f"n{number}", 1) for number in range(6)]
    chosen = host_order.order_hosts(given, "auto", {"AITNE_TOPOLOGY": str(path)})
    assert [host.name for host in chosen] == ["n0", "n3", "n1", "n4", "n2", "n5"]
    assert capsys.readouterr().err == (
        "aitne: rank order: 6 -> 3 crossings, busiest uplink 2 -> 1; no switch connects core, eth\n"
    )


@pytest.mark.parametrize(
    ("hosts", "choice"),
    [
        (GIVEN, "given"),
        (GIVEN[:3], "auto"),
        ([Host(f"other{number}", 1) for number in range(8)], "auto"),
    ],
    ids=["given", "three hosts", "unknown hosts"],
)
def test_order_is_kept_without_a_word(
    hosts: list[Host], choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert host_order.order_hosts(hosts, choice, ENVIRON) == hosts
    assert capsys.readouterr().err == ""


def test_order_of_the_jobs_host_file_is_taken_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostfile"
    names = [host.name for host in GIVEN[::-1]]
    path.write_text("".join(f"{name} slots=2\n" for name in names))
    environ = {**ENVIRON, "AITNE_HOSTFILE": str(path)}
    assert [host.name for host in host_order.order_hosts(GIVEN, "auto", environ)] == names
    assert capsys.readouterr().err == ""
    assert host_order.order_hosts(GIVEN, "given", environ) == GIVEN
    # One of other hosts belongs to something else.
    assert [host.name for host in host_order.order_hosts(GIVEN[:6], "auto", environ)][:2] == [
        "gpu00",
        "gpu04",
    ]


def test_first_host_of_a_session_remains_the_first(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("c\na\nb\nd\n")
    chosen = host_order.decide_order(list("abcd"), f"file:{path}", {}, first="a")
    assert chosen.names == list("abdc")
    names = [host.name for host in GIVEN]
    mesh = host_order.decide_order(names, "auto", ENVIRON, mesh=(2, 4), first="gpu00")
    assert mesh.names[0] == "gpu00"
    with pytest.raises(LaunchError, match="the mesh 3 has 3 ranks"):
        host_order.decide_order(names, "auto", ENVIRON, mesh=(3,))


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes ``scontrol`` a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(script: str) -> None:
        program = folder / "scontrol"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


def test_order_in_a_slurm_job_is_that_of_its_cluster(scontrol: Callable[[str], None]) -> None:
    scontrol(f"cat {ASSETS / 'slurm' / 'tree-22.05.txt'}")
    chosen = host_order.order_hosts(GIVEN, "auto", {"SLURM_JOB_ID": "7"})
    assert [host.name for host in chosen[:2]] == ["gpu00", "gpu04"]


def test_order_in_a_slurm_job_is_that_of_its_partitions_topology(
    scontrol: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm 25.05 and later show another topology than the default one by its name."""
    scontrol(
        'case "$*" in\n'
        '"--all --oneliner show partition gpu")'
        " echo 'PartitionName=gpu OverTimeLimit=NONE PreemptMode=OFF Topology=fat State=UP';;\n"
        '"--all --oneliner show partition cpu") echo PartitionName=cpu State=UP;;\n'
        f'"show topology fat") cat {ASSETS / "slurm" / "tree-26.05.txt"};;\n'
        "*) echo slurm_load_topo error: Unable to contact >&2;;\n"
        "esac"
    )
    chosen = host_order.order_hosts(
        GIVEN, "auto", {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "gpu"}
    )
    assert [host.name for host in chosen[:2]] == ["gpu00", "gpu04"]
    capsys.readouterr()
    other = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "cpu"}
    assert host_order.order_hosts(GIVEN, "auto", other) == GIVEN
    assert "Unable to contact" in capsys.readouterr().err


def test_order_is_given_if_slurm_does_not_answer(
    scontrol: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    scontrol("echo scontrol: fatal: Unable to contact; exit 1")
    assert host_order.order_hosts(GIVEN, "auto", {"SLURM_JOB_ID": "7"}) == GIVEN
    assert "Unable to contact" in capsys.readouterr().err


INTERLEAVED_YAML = (
    "- topology: other\n  flat: true\n- topology: fabric\n  cluster_default: true\n  tree:\n    switches:\n"
    "      - switch: a\n        nodes: gpu[00,02,04,06]\n      - switch: b\n        nodes: gpu[01,03,05,07]\n"
    "      - switch: core\n        children: a,b\n"
)


def test_order_is_that_of_the_file_that_slurm_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=c\n")
    (tmp_path / "topology.conf").write_text("SwitchName=all Nodes=gpu[00-07]\n")
    environ = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    assert host_order.order_hosts(GIVEN, "auto", environ) == GIVEN
    (tmp_path / "topology.yaml").write_text(INTERLEAVED_YAML)
    chosen = [host.name for host in host_order.order_hosts(GIVEN, "auto", environ)]
    assert chosen == [*(f"gpu0{number}" for number in (0, 2, 4, 6, 1, 3, 5, 7))]
    named = {"AITNE_TOPOLOGY": str(tmp_path / "topology.yaml")}
    assert [host.name for host in host_order.order_hosts(GIVEN, "auto", named)] == chosen
    capsys.readouterr()
    # A flat topology has no order, and what cannot be read is named.
    (tmp_path / "topology.yaml").write_text("- topology: all\n  flat: true\n")
    assert host_order.order_hosts(GIVEN, "auto", environ) == GIVEN
    assert host_order.order_hosts(GIVEN, "auto", named) == GIVEN
    assert capsys.readouterr().err == ""
    (tmp_path / "topology.yaml").write_text("- topology: *all\n")
    assert host_order.order_hosts(GIVEN, "auto", environ) == GIVEN
    assert f"{tmp_path}/topology.yaml, line 1: it has an alias" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("fattree_interleaved", "24 -> 4 crossings, busiest uplink 6 -> 1"),
        ("tree512_cyclic", "512 -> 32 crossings, busiest uplink 16 -> 1"),
    ],
)
def test_order_is_the_same_by_either_file_of_slurm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, result: str
) -> None:
    conf = ASSETS / "slurm_file" / f"{name}.conf"
    switches = re.findall(
        r"^SwitchName=(\S+) (Nodes|Switches)=(\S+)", conf.read_text(), re.MULTILINE
    )
    lines = ["- topology: fabric", "  cluster_default: true", "  tree:", "    switches:"]
    for switch, kind, names in switches:
        key = "nodes" if kind == "Nodes" else "children"
        lines += [f"      - switch: {switch}", f"        {key}: {names}"]
    path = tmp_path / "topology.yaml"
    path.write_text("\n".join(lines) + "\n")
    nodes = sorted(
        node for _, kind, names in switches if kind == "Nodes" for node in expand_hostlist(names)
    )
    given = [Host(node, 8) for node in nodes]
    chosen = host_order.order_hosts(given, "auto", {"AITNE_TOPOLOGY": str(path)})
    assert capsys.readouterr().err == f"aitne: rank order: {result}\n"
    assert host_order.order_hosts(given, "auto", {"AITNE_TOPOLOGY": str(conf)}) == chosen


def test_configuration_of_slurm_is_found_where_slurm_finds_it(tmp_path: Path) -> None:
    """On nodes that get it from slurmctld it is in another folder."""
    folders = [str(tmp_path / name) for name in ("etc", "run")]
    assert slurm_and_mpi_queries.find_topology_file({}, folders) is None
    for folder in folders:
        Path(folder).mkdir()
    (tmp_path / "run" / "slurm.conf").write_text("")
    (tmp_path / "run" / "topology.conf").write_text("")
    assert slurm_and_mpi_queries.find_topology_file({}, folders) == str(
        tmp_path / "run" / "topology.conf"
    )
    (tmp_path / "run" / "topology.yaml").write_text("")
    assert slurm_and_mpi_queries.find_topology_file({}, folders) == str(
        tmp_path / "run" / "topology.yaml"
    )
    (tmp_path / "etc" / "slurm.conf").write_text("")
    assert slurm_and_mpi_queries.find_topology_file({}, folders) is None
    (tmp_path / "etc" / "topology.conf").write_text("")
    assert slurm_and_mpi_queries.find_topology_file({}, folders) == str(
        tmp_path / "etc" / "topology.conf"
    )
    named = {"SLURM_CONF": str(tmp_path / "run" / "slurm.conf")}
    assert slurm_and_mpi_queries.find_topology_file(named, folders) == str(
        tmp_path / "run" / "topology.yaml"
    )


def test_wrong_topology_in_the_variable_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=gpu[00-07]\nSwitchName=b Switches=c\n")
    with pytest.raises(LaunchError, match=f"{path}, line 2: .* named by AITNE_TOPOLOGY"):
        host_order.order_hosts(GIVEN, "auto", {"AITNE_TOPOLOGY": str(path)})
    with pytest.raises(LaunchError, match="missing cannot be read"):
        host_order.order_hosts(GIVEN, "auto", {"AITNE_TOPOLOGY": str(tmp_path / "missing")})


def test_order_of_a_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("# mine\ngpu02\n\ngpu00\ngpu01 # last\n")
    chosen = host_order.order_hosts(GIVEN[:3], f"file:{path}", {})
    assert [host.name for host in chosen] == ["gpu02", "gpu00", "gpu01"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gpu00\ngpu01\n", "gpu02 is missing"),
        ("gpu00\n", "gpu01, gpu02 are missing"),
        ("gpu00\ngpu01\ngpu00\n", "line 3: 'gpu00' names a host again"),
        ("gpu00\ngpu01\ngpu09\n", "line 3: 'gpu09' is not one of the hosts"),
        ("gpu00 gpu01\n", "line 1: 'gpu00 gpu01' is not one"),
    ],
)
def test_wrong_file_with_an_order_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "order.txt"
    path.write_text(text)
    with pytest.raises(LaunchError, match=problem):
        host_order.order_hosts(GIVEN[:3], f"file:{path}", {})
