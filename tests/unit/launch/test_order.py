"""The order of the hosts of aitne-run, and what it says about it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aitne.launch import order
from aitne.launch.errors import LaunchError
from aitne.launch.hosts import Host
from tests.support.topologies import ASSETS

CONF = str(ASSETS / "slurm_file" / "fattree_interleaved.conf")
GIVEN = [Host(f"gpu{number:02}", 2) for number in range(8)]
ENVIRON = {"AITNE_TOPOLOGY": CONF}


def test_hosts_are_ordered_by_the_topology(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = order.ordered(GIVEN, "auto", ENVIRON)
    assert [host.name for host in chosen] == [
        *("gpu00", "gpu04", "gpu01", "gpu05"),
        *("gpu02", "gpu06", "gpu03", "gpu07"),
    ]
    assert capsys.readouterr().err == "aitne: rank order: 8 -> 4 crossings, busiest uplink 2 -> 1\n"
    assert order.ordered(chosen, "auto", ENVIRON) == chosen
    assert "already the best one" in capsys.readouterr().err


def test_hosts_may_have_a_domain_and_different_numbers_of_ranks() -> None:
    given = [Host(f"{host.name}.example.org", number) for number, host in enumerate(GIVEN, 1)]
    chosen = order.ordered(given, "auto", ENVIRON)
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
    chosen = order.ordered(given, "auto", {"AITNE_TOPOLOGY": str(path)})
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
    chosen = order.ordered(given, "auto", {"AITNE_TOPOLOGY": str(path)})
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
    assert order.ordered(hosts, choice, ENVIRON) == hosts
    assert capsys.readouterr().err == ""


def test_order_of_the_jobs_host_file_is_taken_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostfile"
    names = [host.name for host in GIVEN[::-1]]
    path.write_text("".join(f"{name} slots=2\n" for name in names))
    environ = {**ENVIRON, "AITNE_HOSTFILE": str(path)}
    assert [host.name for host in order.ordered(GIVEN, "auto", environ)] == names
    assert capsys.readouterr().err == ""
    assert order.ordered(GIVEN, "given", environ) == GIVEN
    # One of other hosts belongs to something else.
    assert [host.name for host in order.ordered(GIVEN[:6], "auto", environ)][:2] == [
        "gpu00",
        "gpu04",
    ]


def test_first_host_of_a_session_remains_the_first(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("c\na\nb\nd\n")
    chosen = order.decide(list("abcd"), f"file:{path}", {}, first="a")
    assert chosen.names == list("abdc")
    names = [host.name for host in GIVEN]
    mesh = order.decide(names, "auto", ENVIRON, mesh=(2, 4), first="gpu00")
    assert mesh.names[0] == "gpu00"
    with pytest.raises(LaunchError, match="the mesh 3 has 3 ranks"):
        order.decide(names, "auto", ENVIRON, mesh=(3,))


def test_order_in_a_slurm_job_is_that_of_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\ncat {ASSETS / 'slurm' / 'tree-22.05.txt'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    chosen = order.ordered(GIVEN, "auto", {"SLURM_JOB_ID": "7"})
    assert [host.name for host in chosen[:2]] == ["gpu00", "gpu04"]


def test_order_is_given_if_slurm_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho slurm_load_topo error: Unable to contact; exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert order.ordered(GIVEN, "auto", {"SLURM_JOB_ID": "7"}) == GIVEN
    assert "Unable to contact" in capsys.readouterr().err


def test_wrong_topology_in_the_variable_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "topology.conf"
    path.write_text("SwitchName=a Nodes=gpu[00-07]\nSwitchName=b Switches=c\n")
    with pytest.raises(LaunchError, match=f"{path}, line 2: .* named by AITNE_TOPOLOGY"):
        order.ordered(GIVEN, "auto", {"AITNE_TOPOLOGY": str(path)})
    with pytest.raises(LaunchError, match="missing cannot be read"):
        order.ordered(GIVEN, "auto", {"AITNE_TOPOLOGY": str(tmp_path / "missing")})


def test_order_of_a_file_is_used(tmp_path: Path) -> None:
    path = tmp_path / "order.txt"
    path.write_text("# mine\ngpu02\n\ngpu00\ngpu01 # last\n")
    chosen = order.ordered(GIVEN[:3], f"file:{path}", {})
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
        order.ordered(GIVEN[:3], f"file:{path}", {})
