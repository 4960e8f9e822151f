"""``hvd.run``: a function on ranks that it starts itself."""

from __future__ import annotations

import pytest
import torch

import aitne_train as hvd
from aitne_train import run_function
from tests.support import realtime

pytestmark = realtime.RANKS


def scaled_sum(factor: float, *, fails_on: int) -> tuple[int, float]:
    hvd.init()
    total = hvd.allreduce(torch.tensor(hvd.rank() + 1.0), op=hvd.Sum).item()
    rank = hvd.rank()
    hvd.shutdown()
    if rank == fails_on:
        raise ValueError("as requested")
    return rank, total * factor


def test_run_returns_the_values_by_rank() -> None:
    results = hvd.run(scaled_sum, (10.0,), {"fails_on": -1}, num_proc=2, use_gloo=True)
    assert results == [(0, 30.0), (1, 30.0)]


@pytest.mark.long(third=2)
def test_run_raises_if_a_rank_fails(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="The ranks of scaled_sum ended with exit code 1"):
        hvd.run(scaled_sum, (10.0,), {"fails_on": 1}, np=2)
    assert "ValueError: as requested" in capfd.readouterr().err


def test_function_of_the_program_itself_needs_cloudpickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_function.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(scaled_sum, "__module__", "__main__")
    monkeypatch.setattr("__main__.scaled_sum", scaled_sum, raising=False)
    with pytest.raises(TypeError, match="install cloudpickle"):
        hvd.run(scaled_sum, np=2)
