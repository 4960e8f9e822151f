"""Comparison of the requests that ranks submit under one name, and messages about their
differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aitne_train.collective_request import Kind, ReduceOp, RequestMetadata


def describe_disagreement(
    label: str, members: Sequence[int], asks: Mapping[int, RequestMetadata]
) -> str | None:
    """Return why the requests in ``asks`` (metadata by rank) cannot be combined into one
    collective; None if they can.

    ``label`` names the collective in the message; ``members`` are the ranks of the process set.
    """
    first = next(iter(asks.values()))
    if all(ask == first for ask in asks.values()):
        return _describe_lone_request(label, members, first)
    for what, of in _ASPECTS[Kind(first.kind)]:
        values = {rank: of(ask) for rank, ask in asks.items()}
        if len(set(values.values())) > 1:
            if what == _SIGNATURE:
                what, values = _find_first_difference(values)
            return f"{label}: ranks disagree on the {what}: {_list_by_rank(values)}."
    return next(
        filter(None, (_describe_lone_request(label, members, ask) for ask in asks.values())), None
    )


def _find_first_difference(signatures: Mapping[int, str]) -> tuple[str, dict[int, Any]]:
    """Return the name of the first value that differs between the signatures (JSON objects as text,
    by rank), and the value of each rank. Only this value is reported, because the signature of a
    large model has megabytes.
    """
    parsed = {rank: json.loads(signature) for rank, signature in signatures.items()}
    for name in dict.fromkeys(name for signature in parsed.values() for name in signature):
        values = {rank: signature.get(name, "none") for rank, signature in parsed.items()}
        if len(set(map(str, values.values()))) > 1:
            return name, values
    return _SIGNATURE, dict(signatures)


def describe_joined_refusal(label: str, ask: RequestMetadata) -> str | None:
    """Return why the request ``ask`` (its metadata) cannot be executed while a rank has joined and
    contributes zeros; None if it can. ``label`` names the collective in the message.

    A request for a channel is deferred instead of refused.
    """
    if ask.kind == Kind.CHANNEL:
        return None
    if ask.kind != Kind.ALLREDUCE:
        return f"{label}: {ask.kind} is not supported while a rank is in join()."
    if ask.op not in {ReduceOp.SUM, ReduceOp.AVERAGE}:
        return (
            f"{label}: {ReduceOp(ask.op).name.title()} is not supported while a rank is in join()."
        )
    return None


def _describe_lone_request(label: str, members: Sequence[int], ask: RequestMetadata) -> str | None:
    if ask.kind == Kind.BROADCAST and ask.root not in members:
        return f"{label}: the root, rank {ask.root}, is not in the process set {list(members)}."
    if ask.kind == Kind.REDUCESCATTER and any(not shape for shape in ask.shapes):
        return f"{label}: a tensor without dimensions cannot be scattered."
    if ask.kind == Kind.ALLTOALL:
        rows = ask.shapes[0][0] if ask.shapes[0] else 1
        if ask.splits is None and rows % len(members):
            return f"{label}: {rows} rows cannot be split evenly among {len(members)} ranks."
        if ask.splits is not None and (len(ask.splits) != len(members) or min(ask.splits) < 0):
            return f"{label}: splits {list(ask.splits)} are not one count for each of {len(members)} ranks."
        if ask.splits is not None and sum(ask.splits) != rows:
            return f"{label}: splits {list(ask.splits)} do not add up to the {rows} rows of the tensor."
    return None


def _list_by_rank(values: Mapping[int, Any]) -> str:
    by_value: dict[Any, list[int]] = {}
    for rank in sorted(values):
        by_value.setdefault(values[rank], []).append(rank)
    return ", ".join(
        f"{'rank' if len(ranks) == 1 else 'ranks'} {_format_ranks(ranks)}: {_format_value(value)}"
        for value, ranks in by_value.items()
    )


def _format_ranks(ranks: list[int]) -> str:
    return (
        ", ".join(map(str, ranks)) if len(ranks) <= 8 else f"{ranks[0]} and {len(ranks) - 1} others"
    )


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_format_value(part) for part in value) + "]"
    return str(value)


def _group_equal(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def _format_dtype(ask: RequestMetadata) -> Any:
    return _group_equal(ask.dtypes)


def _format_shape(ask: RequestMetadata) -> Any:
    return _group_equal(ask.shapes)


def _format_later_dimensions(ask: RequestMetadata) -> Any:
    return _group_equal(tuple((len(shape), *shape[1:]) for shape in ask.shapes))


def _format_op(ask: RequestMetadata) -> str:
    return ReduceOp(ask.op).name.title()


_SIGNATURE = "signature"
_Aspect = tuple[str, Callable[[RequestMetadata], Any]]
_COUNT: _Aspect = ("number of tensors", lambda ask: len(ask.shapes))
_DTYPE: _Aspect = ("dtype", _format_dtype)
_SHAPE: _Aspect = ("shape", _format_shape)
_ROWS: _Aspect = (
    "number of dimensions and their lengths beyond the first",
    _format_later_dimensions,
)
_OP: _Aspect = ("reduction", _format_op)
_SCALE: _Aspect = ("prescale and postscale factors", lambda ask: (ask.prescale, ask.postscale))
_ROOT: _Aspect = ("root rank", lambda ask: ask.root)
_DEVICE: _Aspect = ("device", lambda ask: ask.device)

_ASPECTS: dict[Kind, tuple[_Aspect, ...]] = {
    Kind.ALLREDUCE: (_COUNT, _DTYPE, _OP, _SHAPE, _SCALE, _DEVICE),
    Kind.REDUCESCATTER: (_COUNT, _DTYPE, _OP, _SHAPE, _SCALE, _DEVICE),
    Kind.BROADCAST: (_COUNT, _DTYPE, _ROOT, _SHAPE, _DEVICE),
    Kind.ALLGATHER: (_COUNT, _DTYPE, _ROWS, _DEVICE),
    Kind.ALLTOALL: (_COUNT, _DTYPE, _ROWS, _DEVICE),
    Kind.BARRIER: (),
    Kind.JOIN: (),
    Kind.ADD_SET: (("ranks of the set", lambda ask: ask.extra),),
    Kind.REMOVE_SET: (("number of the set", lambda ask: ask.extra),),
    Kind.CHANNEL: (("device", lambda ask: ask.device), (_SIGNATURE, lambda ask: ask.extra)),
}
