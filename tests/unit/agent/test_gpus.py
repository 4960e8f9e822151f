"""What the agent reads of a job's GPUs."""

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
