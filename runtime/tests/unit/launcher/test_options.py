"""Options of ``aitne-run`` and the spellings of ``horovodrun``."""

from __future__ import annotations

import pytest

from aitne_train.launcher.options import build_parser, build_ssh_options, build_variables

PROGRAM = ["python", "train.py", "-np", "9"]


@pytest.mark.parametrize(
    ("horovodrun", "own"),
    [
        (["--num-proc", "4"], ["-np", "4"]),
        (["-np", "4", "--hosts", "a:2,b:2"], ["-np", "4", "-H", "a:2,b:2"]),
        (["-hostfile", "nodes"], ["--hostfile", "nodes"]),
        (["--start-timeout", "30"], ["--timeout", "30"]),
        (["--mpi"], ["--transport", "mpi"]),
        (["--network-interfaces", "ib0"], ["--network-interface", "ib0"]),
        (["-prefix-timestamp"], ["--prefix"]),
    ],
)
def test_options_of_horovodrun_are_aliases(horovodrun: list[str], own: list[str]) -> None:
    parsed = build_parser().parse_args([*horovodrun, *PROGRAM])
    assert parsed == build_parser().parse_args([*own, *PROGRAM])
    assert parsed.program == PROGRAM


def test_options_of_horovodrun_set_variables() -> None:
    options = build_parser().parse_args(
        [
            "--fusion-threshold-mb",
            "32",
            "--autotune",
            "--timeline-filename",
            "t.json",
            "--no-stall-check",
            "--network-interface",
            "ib0,eth0",
            "--gloo",
            "python",
            "train.py",
        ]
    )
    assert build_variables(options) == {
        "HOROVOD_FUSION_THRESHOLD": "33554432",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_TIMELINE": "t.json",
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        "AITNE_NETWORK_INTERFACE": "ib0,eth0",
        "AITNE_TRANSPORT": "auto",
    }
    assert build_variables(build_parser().parse_args(PROGRAM)) == {}


def test_port_and_key_are_passed_to_ssh() -> None:
    options = build_parser().parse_args(["-p", "2222", "-i", "key", *PROGRAM])
    assert build_ssh_options(options) == ["-p", "2222", "-i", "key"]
