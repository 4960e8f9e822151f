"""Exchange of each bucket by a synchronous allreduce during backward (Sergeev and Del Balso 2018)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import torch

from aitne_train.compress.base import BucketCompressor
from aitne_train.exchange._queue_worker import Worker
from aitne_train.exchange._tensor_serialization import pack_tensor, unpack_tensor
from aitne_train.exchange.base import Bucket, StrategySettings
from aitne_train.record_ring import WAIT
from aitne_train.transport.base import Reduction, TransportError

_COMBINE: Mapping[Reduction, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    Reduction.SUM: torch.add,
    Reduction.MIN: torch.minimum,
    Reduction.MAX: torch.maximum,
    Reduction.PRODUCT: torch.mul,
}


class AllReduce:
    """Strategy that exchanges each bucket by an allreduce.

    On a CPU, a separate thread exchanges all buckets but the last, and the caller of ``on_step``
    exchanges the last one. If a rank has only one processor, the caller exchanges all buckets,
    because the thread would only delay backward. On a GPU all buckets are queued on a separate
    stream.
    """

    name: ClassVar[str] = "allreduce"

    def __init__(self, settings: StrategySettings) -> None:
        self._settings = settings
        self.fill_scale = settings.prescale
        self._last = -1
        self._compressors: list[BucketCompressor] = []
        self._residuals: dict[str, torch.Tensor] = {}
        self._buckets: Sequence[Bucket] = ()
        self._worker: Worker[Bucket] = Worker(self._exchange, "aitne-exchange")
        self._side: torch.cuda.Stream | None = None
        self._left: list[Bucket] = []
        """Buckets that the next ``on_step`` must exchange."""

    def setup(self, buckets: Sequence[Bucket]) -> None:
        """Prepare to exchange these buckets, which are equal on all ranks. Compression errors of
        earlier steps are kept, by parameter.
        """
        self._buckets = buckets
        self._last = len(buckets) - 1
        self._compressors = [self._settings.compressor() for _ in buckets]
        if buckets and buckets[0].flat.is_cuda:
            self._side = torch.cuda.Stream(buckets[0].flat.device)

    def on_bucket(self, bucket: Bucket) -> None:
        """Start the exchange of a bucket; buckets that no thread or stream exchanges, such as the
        last one, are left to ``on_step``.
        """
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream(bucket.flat.device))
            with torch.cuda.stream(self._side):
                self._exchange(bucket)
        elif bucket.index < self._last and self._settings.overlap:
            self._worker.put(bucket)
        else:
            self._left.append(bucket)

    def on_step(self) -> None:
        """Wait until all buckets of the step are exchanged. On a GPU this blocks the CPU too,
        because otherwise the optimizer would apply the gradients of an aborted exchange.
        """
        buckets, self._left = self._left, []
        if self._side is not None:
            self._side.synchronize()
            return
        if self._last > 0 and self._settings.overlap:
            now = time.monotonic_ns()
            # Recorded also without a wait: without any mark the overlap would be unknown.
            waited = self._worker.drain() or (now, now)
            self._settings.recorder.add(WAIT, 0, self._settings.transport.size, *waited)
        for bucket in buckets:
            self._exchange(bucket)

    def state_dict(self) -> dict[str, Any]:
        """Return the compression errors to add to the next step's gradients, by name of the
        parameter.
        """
        return {"residuals": {name: residual.clone() for name, residual in self._residuals.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the compression errors from the result of ``state_dict``."""
        self._residuals = {name: residual.clone() for name, residual in state["residuals"].items()}

    def close(self) -> None:
        """Stop the thread of the exchange."""
        self._worker.close()

    def _exchange(self, bucket: Bucket) -> None:
        try:
            self._exchange_on_transport(bucket)
        except TransportError as error:
            raise self._settings.failure(error) from error

    def _exchange_on_transport(self, bucket: Bucket) -> None:
        settings = self._settings
        compressor = self._compressors[bucket.index]
        flat = bucket.flat
        if settings.error_feedback and compressor.error_feedback:
            self._add_residuals(bucket)
        row, context = compressor.compress(flat.view(bucket.shape) if bucket.shape else flat)
        if settings.error_feedback and compressor.error_feedback:
            self._keep_residuals(bucket, compressor.decompress(row, context).view(-1))
        if compressor.reducible:
            reduced = self._reduce_row(row)
            if reduced is not flat:
                flat.copy_(compressor.decompress(reduced, context).reshape(-1))
        else:
            self._combine_gathered(flat, row, compressor, context)
        if settings.postscale != 1.0:
            flat.mul_(settings.postscale)

    def _reduce_row(self, row: torch.Tensor) -> torch.Tensor:
        """Return the sum of the tensor ``row`` over all ranks. It is written to ``row`` itself if
        the transport supports its dtype.
        """
        settings = self._settings
        transport = settings.transport
        wire = row if row.is_contiguous() else row.contiguous()
        if wire.is_complex():
            wire = torch.view_as_real(wire)
        if not transport.reduces(wire.dtype, settings.op):
            wire = wire.to(torch.float32)
        began = time.monotonic_ns()
        transport.allreduce(wire.view(-1), settings.op)
        settings.recorder.add(
            "allreduce",
            wire.numel() * wire.element_size(),
            transport.size,
            began,
            time.monotonic_ns(),
        )
        if wire is row:
            return row
        if row.is_complex():
            wire = torch.view_as_complex(wire)
        return wire.to(row.dtype)

    def _combine_gathered(
        self, flat: torch.Tensor, row: torch.Tensor, compressor: BucketCompressor, context: Any
    ) -> None:
        """Gather the compressed tensors (``row``) of all ranks, decompress each with the context
        sent with it, and write the combined result to ``flat``.
        """
        settings = self._settings
        transport, size = settings.transport, settings.transport.size
        payload = pack_tensor(row, context)
        began = time.monotonic_ns()
        counts = torch.empty(size, dtype=torch.int64, device=flat.device)
        transport.allgather(counts, counts.new_tensor([payload.numel()]), [1] * size)
        lengths = counts.tolist()
        every = payload.new_empty(sum(lengths))
        transport.allgather(every, payload, lengths)
        settings.recorder.add("allgather", payload.numel(), size, began, time.monotonic_ns())
        rows = (
            compressor.decompress(*unpack_tensor(part)).reshape(-1).to(flat.dtype)
            for part in every.split(lengths)
        )
        flat.copy_(reduce(_COMBINE[settings.op], rows))

    def _split_parts(self, bucket: Bucket) -> list[tuple[str, slice]]:
        ends = [*bucket.offsets[1:], bucket.flat.numel()]
        return [
            (name, slice(begin, end))
            for name, begin, end in zip(bucket.names, bucket.offsets, ends, strict=True)
        ]

    def _add_residuals(self, bucket: Bucket) -> None:
        for name, part in self._split_parts(bucket):
            residual = self._residuals.get(name)
            if residual is not None:
                bucket.flat[part].add_(residual)

    def _keep_residuals(self, bucket: Bucket, sent: torch.Tensor) -> None:
        # The error of an infinite gradient (too large a loss scale) is not kept.
        lost = torch.nan_to_num_(bucket.flat - sent, nan=0.0, posinf=0.0, neginf=0.0)
        for name, part in self._split_parts(bucket):
            self._residuals[name] = lost[part]
