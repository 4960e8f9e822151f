"""Tests of the agent's measurements of a job's GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from aitne.agent import gpus


class FakeNvml:
    """A library with two devices."""

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        handle._obj.value = index.value + 1
        return 0 if index.value < 2 else 2

    def nvmlDeviceGetHandleByUUID(self, name: bytes, handle: Any) -> int:
        handle._obj.value = 2
        return 0 if name == b"GPU-1" else 2

    def nvmlDeviceGetIndex(self, handle: Any, index: Any) -> int:
        index._obj.value = handle.value - 1
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: Any, found: Any) -> int:
        found._obj.gpu = 50 * handle.value
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, found: Any) -> int:
        found._obj.used = handle.value << 30
        return 0


class MeasuringNvml(FakeNvml):
    """A newer driver, whose counters grow with each call; the second device has no energy counter."""

    energy_mj = 5_000

    def nvmlDeviceGetPowerUsage(self, handle: Any, power: Any) -> int:
        power._obj.value = 250_500
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        self.energy_mj += 1_500
        energy._obj.value = self.energy_mj
        return 0 if handle.value == 1 else 3

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, span: Any, errors: Any) -> int:
        errors._obj.value = 7 if (kind.value, span.value) == (1, 0) else 0
        return 0


def test_power_energy_and_ecc_errors_are_reported_where_they_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda _: MeasuringNvml())
    first, second = gpus.Gpus("0,1").measure()
    assert (first["power_w"], first["ecc_errors"]) == (250.5, 7)
    assert first["energy_j"] == 3.0  # after the first reading came that of the other device
    assert (second["power_w"], "energy_j" in second) == (250.5, False)


class SilentNvml(FakeNvml):
    """A driver that has no values: all bits of the results are set."""

    def nvmlDeviceGetPowerUsage(self, handle: Any, power: Any) -> int:
        power._obj.value = -1
        return 0

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, span: Any, errors: Any) -> int:
        errors._obj.value = -1
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, found: Any) -> int:
        found._obj.used = -1 if handle.value == 1 else 1 << 30
        return 0


def test_value_that_the_driver_does_not_have_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda _: SilentNvml())
    expected = {"index": 1, "utilization": 1.0, "memory_bytes": 1 << 30}
    assert gpus.Gpus("0,1").measure() == [expected]


def test_gpus_after_an_invalid_one_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda _: FakeNvml())
    assert [sample["index"] for sample in gpus.Gpus("1,-1,0").measure()] == [1]
    assert gpus.Gpus("NoDevFiles").measure() == []


def test_the_jobs_own_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus.ctypes, "CDLL", lambda _: FakeNvml())
    assert gpus.Gpus("GPU-1,7, 0").measure() == [
        {"index": 1, "utilization": 1.0, "memory_bytes": 2 << 30},
        {"index": 0, "utilization": 0.5, "memory_bytes": 1 << 30},
    ]


@pytest.mark.parametrize("visible", [None, "", "0"])
def test_no_gpus(monkeypatch: pytest.MonkeyPatch, visible: str | None) -> None:
    def missing(_: str) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(gpus.ctypes, "CDLL", missing)
    assert gpus.Gpus(visible).measure() == []
