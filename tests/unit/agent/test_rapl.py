"""RAPL's counters, read from a copy of sysfs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.agent import rapl, reporter, sampler
from tests.support.rapl import COUNTED, NAMES, RANGE_UJ, limit_uj, set_counter, tree
from tests.unit.agent.test_parts import spec_in


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, RANGE_UJ // 4 - 1), min_size=len(NAMES), max_size=len(NAMES)),
    st.lists(
        st.lists(st.integers(0, RANGE_UJ // 4 - 1), min_size=len(NAMES), max_size=len(NAMES)),
        max_size=3,
    ),
)
def test_packages_and_memory_are_counted_once_whatever_counter_begins_anew(
    starts: list[int], steps: list[list[int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = tree(Path(folder))
        used = dict(zip(NAMES, starts, strict=True))
        for zone, value in used.items():
            set_counter(root, zone, value)
        reader, total_uj = rapl.Rapl(folder), 0
        for step in steps:
            for zone, more in zip(NAMES, step, strict=True):
                used[zone] += more
                set_counter(root, zone, used[zone] % limit_uj(zone))
                total_uj += more if zone in COUNTED else 0
            assert reader.energy_j() == pytest.approx(total_uj / 1e6)


@pytest.mark.parametrize(
    "name", ["intel-rapl:0/energy_uj", "intel-rapl:1:0/energy_uj", "intel-rapl:0:2/name"]
)
def test_a_part_of_the_counters_is_no_measurement(tmp_path: Path, name: str) -> None:
    root = tree(tmp_path / "powercap")
    (root / name).unlink()
    (root / name).mkdir()  # not readable, even for root
    reader = rapl.Rapl(str(root))
    assert (reader.is_readable, reader.energy_j()) == (False, None)


def test_a_node_without_rapl_measures_nothing(tmp_path: Path) -> None:
    for root in (tmp_path / "missing", tmp_path):
        reader = rapl.Rapl(str(root))
        assert (reader.is_readable, reader.energy_j()) == (False, None)


def test_a_counter_that_fails_once_is_in_the_next_reading(tmp_path: Path) -> None:
    root = tree(tmp_path / "powercap")
    reader = rapl.Rapl(str(root))
    set_counter(root, "intel-rapl:1", 4_000_000)
    set_counter(root, "intel-rapl:0", 2_000_000)
    (root / "intel-rapl:0/energy_uj").rename(root / "gone")
    assert reader.energy_j() is None
    (root / "gone").rename(root / "intel-rapl:0/energy_uj")
    assert reader.energy_j() == 4.0


def test_power_is_unknown_until_two_readings_follow_each_other(tmp_path: Path) -> None:
    root = tree(tmp_path / "powercap")
    measuring = sampler.Sampler(spec_in(tmp_path), reporter.Reporter(spec_in(tmp_path)))
    measuring.open_rapl(str(root))
    (root / "intel-rapl:0/energy_uj").rename(root / "gone")
    assert measuring.measure()["node_cpu_power_w"] is None
    (root / "gone").rename(root / "intel-rapl:0/energy_uj")
    assert measuring.measure()["node_cpu_power_w"] is None
    assert measuring.measure()["node_cpu_power_w"] == 0


@pytest.mark.parametrize(
    ("cpus", "whole"), [("8", True), ("8(x3)", True), ("8(x2),4", False), ("4", False), ("", False)]
)
def test_energy_is_the_jobs_only_if_it_has_all_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: str, whole: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", cpus)
    root = tree(tmp_path / "powercap")
    measuring = sampler.Sampler(spec_in(tmp_path), reporter.Reporter(spec_in(tmp_path)))
    measuring.open_rapl(str(root))
    set_counter(root, "intel-rapl:1", 6_000_000)
    found = measuring.measure()
    assert found["cpu_energy_j"] == (5.0 if whole else None)
    assert found["node_cpu_power_w"] > 0
    assert measuring.measure()["node_cpu_power_w"] == 0


def test_counters_are_read_before_they_can_begin_anew_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "powercap", 0)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        turns = sum(pauses) * 1_000e6 / limit_uj("intel-rapl:0:2")  # at 1,000 W
        set_counter(root, "intel-rapl:0:2", int(turns % 1 * limit_uj("intel-rapl:0:2")))

    monkeypatch.setattr(sampler.time, "sleep", sleep)
    spec = SimpleNamespace(node="n", sample_interval_s=256.0)
    measuring = sampler.Sampler(spec, reporter.Reporter(spec_in(tmp_path)))  # type: ignore[arg-type]
    measuring.open_rapl(str(root))
    measuring._sleep_for_interval()
    monkeypatch.setattr(sampler, "has_whole_nodes", lambda _: True)
    assert sum(pauses) == 256.0
    assert measuring.measure()["cpu_energy_j"] == pytest.approx(256_000.0, rel=1e-3)
