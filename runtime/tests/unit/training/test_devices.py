"""Tests of GPU support with stand-ins for PyTorch's events and streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from aitne_train import gpu_stream_sync
from aitne_train.gpu_stream_sync import GpuActivity, QueuedCollectives, observe_gpu_activity

GPU = torch.device("cuda", 1)


class Stream:
    """A GPU's queue: ``done`` of the events recorded on it are reached."""

    def __init__(self) -> None:
        self.recorded = 0
        self.done = 0

    def query(self) -> bool:
        return self.done >= self.recorded


class Event:
    def record(self, stream: Stream) -> None:
        stream.recorded += 1
        self.stream, self.number = stream, stream.recorded

    def query(self) -> bool:
        return self.stream.done >= self.number


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    found = Stream()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda index: index)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda index: {1: found}[index])
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: {GPU: found}[device])
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(gpu_stream_sync, "QUEUED", QueuedCollectives())
    return found


def test_process_without_gpu_does_nothing_there() -> None:
    assert observe_gpu_activity() is GpuActivity.NONE


def test_collective_in_progress_differs_from_computation(stream: Stream) -> None:
    with gpu_stream_sync.QUEUED.record_queued(GPU):
        pass
    assert observe_gpu_activity() is GpuActivity.COMPUTING, "the collective has not begun"
    stream.done = 1
    assert observe_gpu_activity() is GpuActivity.COLLECTIVE
    stream.done = 2
    assert observe_gpu_activity() is GpuActivity.NONE


def test_collective_in_flight_recorder_counts_once_it_has_started(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[dict[str, Any]] = [{"state": "scheduled"}]

    def dump(**options: bool) -> str:
        assert options == {"includeCollectives": True, "onlyActive": True}
        return json.dumps({"entries": entries})

    monkeypatch.setattr(torch._C._distributed_c10d, "_dump_nccl_trace_json", dump, raising=False)
    assert observe_gpu_activity() is GpuActivity.NONE
    entries.append({"state": "started"})
    assert observe_gpu_activity() is GpuActivity.COLLECTIVE
