"""The GPU's half of the runtime, by stand-ins for what PyTorch has on GPUs only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from runtime.tests.ranks import gpu_work

from aitne_train.collective_request import Kind, Request, RequestMetadata
from aitne_train.transport import torch_pg
from aitne_train.transport.base import Group, Reduction, TransportError
from aitne_train.transport.torch_pg import TorchProcessGroup
from tests.support.ranks import Pool


class Nccl:
    """In place of ``dist.ProcessGroupNCCL``."""

    class Options:
        _timeout = timedelta(0)

    connected: torch.device | None = None

    def __init__(self, store: Any, rank: int, size: int, options: Options) -> None:
        self.place = (rank, size)

    def eager_connect_single_device(self, device: torch.device) -> None:
        Nccl.connected = device

    def _set_default_timeout(self, timeout: timedelta) -> None:
        pass


class NoStore:
    def set(self, key: str, value: bytes) -> None:
        raise AssertionError("NCCL's stand-in stores nothing")

    def get(self, key: str, timeout_s: float) -> bytes:
        raise AssertionError("NCCL's stand-in reads nothing")


def test_nccl_connects_the_gpu_of_the_model_with_the_settings_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current: list[torch.device] = []

    @contextmanager
    def device(chosen: torch.device) -> Iterator[None]:
        current.append(chosen)
        yield

    monkeypatch.setattr(dist, "ProcessGroupNCCL", Nccl, raising=False)
    monkeypatch.setattr(torch.cuda, "device", device)
    before = dict(os.environ)
    group = Group("test", 0, (0, 1), (0, 0), NoStore())
    transport = TorchProcessGroup.connect(group, "cuda:1")
    assert Nccl.connected == torch.device("cuda:1")
    assert current == [torch.device("cuda:1")]
    assert dict(os.environ) == before
    with pytest.raises(TransportError, match="for tensors on cuda:1, and a tensor is on cpu"):
        transport.allreduce(torch.ones(1), Reduction.SUM)


class GroupedNccl:
    """One rank's NCCL in place of which a test sees what is started, and in which groups."""

    def __init__(self) -> None:
        self.groups: list[list[tuple[str, int, int]]] = []

    def _start_coalescing(self) -> None:
        self.groups.append([])

    def broadcast(self, part: torch.Tensor, root: int) -> None:
        self.groups[-1].append(("broadcast", root, part.numel()))
        if root != 1:
            part.fill_(root)

    def reduce(self, parts: list[torch.Tensor], options: dist.ReduceOptions) -> None:
        [part] = parts
        self.groups[-1].append(("reduce", options.rootRank, part.numel()))
        assert options.reduceOp == dist.ReduceOp.SUM
        if options.rootRank == 1:
            part.mul_(10)

    def _end_coalescing(self) -> Any:
        return self

    def wait(self) -> None:
        self.groups[-1].append(("wait", 0, 0))


def test_parts_of_different_sizes_are_one_group_of_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    nccl = GroupedNccl()
    group = Group("test", 1, (0, 1, 2), (0, 0, 0), NoStore())
    transport = TorchProcessGroup(group, nccl, NoStore(), torch.device("cpu"))
    transport._backend = "NCCL"
    monkeypatch.setattr(torch_pg.QUEUED, "record_queued", lambda device: nullcontext())
    gathered = torch.zeros(3, dtype=torch.uint8)
    transport.allgather(gathered, torch.tensor([7], dtype=torch.uint8), [2, 1, 0])
    assert gathered.tolist() == [0, 0, 7]
    part = torch.zeros(1)
    transport.reducescatter(part, torch.tensor([1.0, 2.0, 3.0]), [2, 1, 0], Reduction.SUM)
    assert part.tolist() == [30.0]
    assert nccl.groups == [
        [("broadcast", 0, 2), ("broadcast", 1, 1), ("wait", 0, 0)],
        [("reduce", 0, 2), ("reduce", 1, 1), ("wait", 0, 0)],
    ]


def test_ranks_on_different_gpus_agree_about_the_device() -> None:
    request = Request(Kind.CHANNEL, "optimizer", (), device="cuda:1")
    assert RequestMetadata.from_request(request).device == "cuda"


def test_optimizer_applies_no_gradients_of_an_aborted_exchange(pool: Pool) -> None:
    assert pool.run(gpu_work.applies_an_aborted_exchange, 2) == [(True, False)] * 2


def test_batch_normalization_copies_nothing_to_float64_and_waits_for_no_value(pool: Pool) -> None:
    for names, most_float64, difference in pool.run(gpu_work.normalizes, 2):
        assert most_float64 <= 2 * (1 + 2 * 3), "statistics of two ranks"
        assert names.isdisjoint({"_local_scalar_dense", "nonzero", "is_nonzero"})
        assert difference < 1e-4


def test_transports_are_connected_in_one_order_on_all_ranks(pool: Pool) -> None:
    first, second = pool.run(gpu_work.opens_channels_in_two_threads, 2)
    assert first == second
    assert len(set(first)) == 8
