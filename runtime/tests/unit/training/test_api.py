"""Tests of the API in a single process without a launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import aitne_train as hvd
from aitne_train._collective_submission import make_dense
from aitne_train.elastic import HostUpdateResult, ObjectState, run_fn
from aitne_train.functions import _pickle_sealed, _unpickle_sealed

ROOT = Path(__file__).resolve().parents[4]


def alone(*argv: str) -> str:
    """Return the output of a new process without the variables of a launcher."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOROVOD_", "OMPI_", "PMI", "SLURM_", "AITNE_"))
        and name not in {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    }
    environ |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *argv], env=environ, cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def initialized() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def test_every_check_that_one_rank_can_pass() -> None:
    lines = alone("-m", "runtime.tests.ranks.conformance", "aitne_train").splitlines()
    assert len([line for line in lines if line.startswith("passed")]) > 60


def imported(use: str) -> set[str]:
    """Return the names of the packages that a program has imported."""
    shown = "print(*{name.partition('.')[0] for name in sys.modules})"
    return set(alone("-c", f"import sys, aitne_train; {use}; {shown}").split())


def test_api_needs_torch_and_numpy_only() -> None:
    found = imported("aitne_train.init")
    heavy = {"pydantic", "yaml", "typer", "rich", "mpi4py", "horovod", "cloudpickle", "fastapi"}
    assert not heavy & found
    assert {"torch", "numpy"} <= found


def test_import_alone_and_launcher_load_no_torch() -> None:
    use = "import aitne_train.launcher.main, aitne_train.topology.rank_order; from aitne_train import cli"
    assert not {"torch", "numpy", "aitne"} & imported(use)


def test_missing_torch_is_named_with_its_installation(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import aitne_train as hvd\n"
        "try: hvd.init()\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert "aitne_train.init needs PyTorch" in alone("-c", code)
    assert "pip install 'aitne-train[torch]'" in alone("-c", code)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'aitne_train' has no attribute 'nothing'"):
        hvd.nothing  # noqa: B018


def test_modules_have_horovods_names() -> None:
    from aitne_train import compression, elastic, functions, mpi_ops, optimizer, sync_batch_norm

    assert mpi_ops.allreduce is hvd.allreduce
    assert mpi_ops.rank is hvd.rank
    assert mpi_ops.ProcessSet is hvd.ProcessSet
    assert compression.Compression is hvd.Compression
    assert functions.broadcast_object is hvd.broadcast_object
    assert optimizer.DistributedOptimizer is hvd.DistributedOptimizer
    assert sync_batch_norm.SyncBatchNorm is hvd.SyncBatchNorm
    assert elastic.sampler.ElasticSampler is elastic.ElasticSampler
    assert elastic.state.TorchState is hvd.elastic.TorchState


def test_all_that_is_public_is_there() -> None:
    assert sorted(hvd.__all__) == sorted(set(hvd.__all__))
    assert all(hasattr(hvd, name) for name in hvd.__all__)


def test_a_communicator_of_all_ranks_is_taken_and_of_others_is_not() -> None:
    hvd.shutdown()
    hvd.init(comm=[0])
    hvd.shutdown()
    with pytest.raises(ValueError, match="process sets"):
        hvd.init(comm=[0, 1])
    assert not hvd.is_initialized()
    with pytest.raises(ValueError, match="communicator"):
        hvd.init(comm=5)


def test_init_twice_is_init_once() -> None:
    handle = hvd.allreduce_async(torch.ones(1))
    hvd.init()
    assert hvd.synchronize(handle).item() == 1


def test_before_init() -> None:
    hvd.shutdown()
    for ask in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.stop_timeline):
        with pytest.raises(ValueError, match="not been initialized"):
            ask()
    for collective in (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises(hvd.HorovodInternalError, match="not been initialized"):
            collective(torch.ones(1))
    assert not hvd.mpi_enabled()
    assert not hvd.gloo_enabled()


def test_only_the_extension_for_pytorch_is_there() -> None:
    hvd.check_extension("horovod.torch", "HOROVOD_WITH_PYTORCH", __file__, "mpi_lib_v2")
    with pytest.raises(ImportError, match="tensorflow"):
        hvd.check_extension("horovod.tensorflow", "HOROVOD_WITH_TENSORFLOW", __file__)


def test_a_timeline_is_written_between_start_and_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="DYNAMIC"):
        hvd.start_timeline(str(tmp_path / "no.json"))
    monkeypatch.setenv("HOROVOD_TIMELINE", "DYNAMIC")
    hvd.start_timeline(str(tmp_path / "timeline.json"), mark_cycles=True)
    hvd.allreduce(torch.ones(3), name="marked")
    hvd.stop_timeline()
    assert "start_time_since_epoch_in_micros" in (tmp_path / "timeline.json").read_text()


@pytest.mark.parametrize("wrong", [None, 3.0, [1, 2]])
def test_value_that_is_no_tensor_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="tensor"):
        hvd.allreduce(wrong)


def test_a_set_that_was_never_registered_is_refused() -> None:
    with pytest.raises(ValueError, match="registered"):
        hvd.allreduce(torch.ones(1), process_set=hvd.ProcessSet([0]))


def test_sparse_tensors_average_or_sum_and_nothing_else() -> None:
    own = torch.eye(3).to_sparse()
    assert torch.equal(
        hvd.synchronize(hvd.sparse_allreduce_async(own, "s", hvd.Sum)).to_dense(), torch.eye(3)
    )
    with pytest.raises(ValueError, match="summed or averaged"):
        hvd.sparse_allreduce_async(own, "s", hvd.Min)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.uint8])
def test_compression_keeps_whole_numbers_and_types(kind: str, dtype: torch.dtype) -> None:
    compression = getattr(hvd.Compression, kind)
    small, context = compression.compress(torch.tensor([1, 2, 100], dtype=dtype))
    assert small.itemsize == min(dtype.itemsize, 2) or not dtype.is_floating_point
    back = compression.decompress(small, context)
    assert back.dtype is dtype
    assert back.tolist() == [1, 2, 100]


def test_objects_travel_as_bytes() -> None:
    row = _pickle_sealed({"a": [1, "two"]})
    assert row.dtype is torch.uint8
    assert _unpickle_sealed(row) == {"a": [1, "two"]}


def state(**values: Any) -> ObjectState:
    return ObjectState(bcast_object=lambda each: each, get_rank=lambda: 0, **values)


def test_a_run_begins_anew_from_the_last_commit() -> None:
    seen: list[int] = []

    def train(run: ObjectState) -> int:
        while run.step < 5:
            run.step += 1
            seen.append(run.step)
            if seen == [1, 2, 3]:
                raise hvd.HorovodInternalError("lost")
            if run.step % 2 == 0:
                run.commit()
        return run.step

    resets: list[str] = []
    own = state(step=0)
    own.register_reset_callbacks([lambda: resets.append("called")])
    assert run_fn(train, lambda: resets.append("reset"))(own) == 5
    assert seen == [1, 2, 3, 3, 4, 5]
    assert resets == ["reset", "called"]


def test_failures_with_commits_in_between_go_on_and_on() -> None:
    def train(run: ObjectState) -> int:
        run.step += 1
        run.commit()
        if run.step < 9:
            raise hvd.HorovodInternalError("again")
        return run.step

    assert run_fn(train, lambda: None)(state(step=0)) == 9


def test_an_error_of_the_reset_is_raised() -> None:
    def train(run: ObjectState) -> None:
        raise hvd.HorovodInternalError("a rank is gone")

    def reset() -> None:
        raise hvd.HorovodInternalError("it did not come back")

    with pytest.raises(hvd.HorovodInternalError, match="come back"):
        run_fn(train, reset)(state(step=0))


def test_removed_nodes_need_no_synchronization() -> None:
    own = state(step=1)
    own.on_hosts_updated(3.0, HostUpdateResult.removed)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as removed:
        own.commit()
    assert removed.value.skip_sync
    own.commit()
    own.on_hosts_updated(3.0, HostUpdateResult.removed)  # the same news once more
    own.check_host_updates()
    own.on_hosts_updated(4.0, HostUpdateResult.removed)
    own.on_hosts_updated(5.0, HostUpdateResult.added)
    with pytest.raises(hvd.HostsUpdatedInterrupt) as both:
        own.check_host_updates()
    assert not both.value.skip_sync


def test_other_types_may_have_handlers() -> None:
    from aitne_train.elastic import state as module

    class Upper(module.StateHandler):
        def save(self) -> None:
            self.saved = list(self.value)

        def restore(self) -> None:
            self.value[:] = self.saved

        def sync(self) -> None:
            self.save()

    before = list(module.get_handler_registry())
    module.set_handler_registry([(list, Upper), *before])
    try:
        own = hvd.elastic.TorchState(letters=["a"])
        own.letters.append("b")
        own.restore()
        assert own.letters == ["a"]
    finally:
        module.set_handler_registry(before)


def test_a_sampler_with_fewer_samples_than_ranks_repeats_them() -> None:
    sampler = hvd.elastic.ElasticSampler([0, 1], shuffle=False)
    sampler.num_replicas, sampler.total_size = 5, 5
    sampler.rank = 4
    assert list(sampler) == [0]


@pytest.mark.parametrize("lazy", [lambda x: x.conj(), lambda x: x.conj().imag])
def test_lazy_tensor_operations_are_applied_before_exchange(lazy: Any) -> None:
    given = torch.tensor([1 + 2j, 3 - 4j])
    view = lazy(given)
    moved = make_dense(view)
    assert not moved.is_conj()
    assert not moved.is_neg()
    assert torch.equal(moved, view.clone())
