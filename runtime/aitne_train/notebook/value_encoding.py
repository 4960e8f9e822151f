"""Conversion of values for ``%push`` and ``%pull``: numbers, text, arrays and tensors as plain bytes,
anything else with pickle.

A value becomes a description in JSON and a list of buffers. Arrays and tensors are not copied into
the description; their bytes are buffers of their own. torch and NumPy are used only if the value's
program has imported them. A tensor becomes a NumPy array where torch is not installed.
"""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

_PLAIN = (bool, int, float, str, type(None))
_DEPTH = 64
_MOST_CHILDREN = 10_000


class ValueTransferError(Exception):
    """Error: a value cannot be sent to another process, or read there. The message contains the
    path of the value or the reason."""


class Encoder:
    """Encoder of values as JSON descriptions and binary buffers.

    Args:
        same_python: whether the receiver has the same minor version of Python. Functions are sent by
            value only then: their code cannot be read by another version.
    """

    def __init__(self, *, same_python: bool = True) -> None:
        self.buffers: list[Any] = []
        self._dumps = _dumps_by_value() if same_python else _dumps_by_reference

    def encode_value(self, value: Any, path: str) -> dict[str, Any]:
        """Return the description of a value, and append its buffers to ``buffers``.

        Args:
            value: any value.
            path: how a program names it, for error messages.

        Raises:
            ValueTransferError: it, or something in it, cannot be pickled.
        """
        return self._encode_part(value, path, 0, set())

    def _encode_part(self, value: Any, path: str, depth: int, parents: set[int]) -> dict[str, Any]:
        kind = type(value)
        if kind in _PLAIN:
            return {"is": "plain", "value": value}
        if kind in (bytes, bytearray):
            return {"is": kind.__name__, "buffer": self._add_buffer(value)}
        if kind in (list, tuple, dict, OrderedDict):
            if depth < _DEPTH and id(value) not in parents and self._has_simple_keys(value):
                return self._encode_container(value, path, depth, parents | {id(value)})
        elif (numpy := sys.modules.get("numpy")) is not None and kind is numpy.ndarray:
            if not value.dtype.hasobject:
                return self._encode_array(value, numpy)
        elif (
            (torch := sys.modules.get("torch")) is not None
            and kind in (torch.Tensor, torch.nn.Parameter)
            and value.layout == torch.strided
            and not value.is_quantized
        ):
            return self._encode_tensor(value, torch)
        return {"is": "pickle", "buffer": self._add_buffer(self._encode_pickled(value, path))}

    @staticmethod
    def _has_simple_keys(value: Any) -> bool:
        if not isinstance(value, dict):
            return len(value) <= _MOST_CHILDREN
        return len(value) <= _MOST_CHILDREN and all(type(key) in _PLAIN for key in value)

    def _encode_container(
        self, value: Any, path: str, depth: int, parents: set[int]
    ) -> dict[str, Any]:
        items: list[Any]
        if isinstance(value, dict):
            items = [
                [key, self._encode_part(each, f"{path}[{key!r}]", depth + 1, parents)]
                for key, each in value.items()
            ]
        else:
            items = [
                self._encode_part(each, f"{path}[{number}]", depth + 1, parents)
                for number, each in enumerate(value)
            ]
        return {"is": type(value).__name__, "items": items}

    def _encode_array(self, value: Any, numpy: Any) -> dict[str, Any]:
        # An array in another order than C's is copied once; ascontiguousarray would make 0-d arrays 1-d.
        flat = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
        return {
            "is": "array",
            "dtype": numpy.lib.format.dtype_to_descr(value.dtype),
            "shape": list(value.shape),
            "buffer": self._add_buffer(flat.data),
        }

    def _encode_tensor(self, value: Any, torch: Any) -> dict[str, Any]:
        own = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return {
            "is": "tensor",
            "dtype": str(own.dtype).removeprefix("torch."),
            "shape": list(own.shape),
            "requires_grad": bool(value.requires_grad),
            "parameter": type(value) is torch.nn.Parameter,
            "buffer": self._add_buffer(own.reshape(-1).view(torch.uint8).numpy().data),
        }

    def _encode_pickled(self, value: Any, path: str) -> bytes:
        try:
            return self._dumps(value)
        except Exception as error:
            where, cause = _find_culprit(value, path, self._dumps, error)
            raise ValueTransferError(
                f"{where} cannot be sent: {cause}. Send what it is made from instead"
            ) from error

    def _add_buffer(self, content: Any) -> int:
        self.buffers.append(content)
        return len(self.buffers) - 1


def decode_value(description: Any, buffers: Sequence[Any]) -> Any:
    """Return the value that ``Encoder.encode_value`` has converted to ``description`` and ``buffers``.

    Raises:
        ValueTransferError: a package that the value needs is missing or has another version here, or
            the description is damaged.
    """
    try:
        return _decode_part(description, buffers)
    except ValueTransferError:
        raise
    except ModuleNotFoundError as error:
        raise ValueTransferError(
            f"the value needs the package {error.name}, which this Python ({sys.executable}) does not have"
        ) from error
    except Exception as error:
        raise ValueTransferError(f"the value cannot be read here: {error!r}") from error


def _decode_part(description: Any, buffers: Sequence[Any]) -> Any:
    kind = description["is"]
    if kind == "plain":
        return description["value"]
    if kind in ("list", "tuple"):
        items = [_decode_part(each, buffers) for each in description["items"]]
        return items if kind == "list" else tuple(items)
    if kind in ("dict", "OrderedDict"):
        pairs = ((key, _decode_part(each, buffers)) for key, each in description["items"])
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    buffer = memoryview(buffers[description["buffer"]])
    if kind == "bytes":
        return bytes(buffer)
    if kind == "bytearray":
        return bytearray(buffer)
    if kind == "array":
        import numpy

        dtype = numpy.lib.format.descr_to_dtype(_restore_tuples(description["dtype"]))
        return numpy.frombuffer(bytearray(buffer), dtype).reshape(description["shape"])
    if kind == "tensor":
        return _decode_tensor(description, buffer)
    return pickle.loads(buffer)  # noqa: S301 - a process of the same user has sent it


def _decode_tensor(description: Any, buffer: memoryview) -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _decode_tensor_as_array(description, buffer)
    dtype = getattr(torch, description["dtype"])
    flat = torch.empty(0, dtype=dtype)
    if buffer.nbytes:
        flat = torch.frombuffer(bytearray(buffer), dtype=dtype)
    shaped = flat.reshape(description["shape"])
    if description["parameter"]:
        return torch.nn.Parameter(shaped, description["requires_grad"])
    return shaped.requires_grad_(description["requires_grad"])


def _decode_tensor_as_array(description: Any, buffer: memoryview) -> Any:
    """Return the elements of a tensor as a NumPy array, bfloat16 as float32.

    Raises ``ValueTransferError`` if NumPy has no such type.
    """
    import numpy

    name = description["dtype"]
    if name == "bfloat16":
        wide = numpy.frombuffer(buffer, numpy.uint16).astype(numpy.uint32) << 16
        return wide.view(numpy.float32).reshape(description["shape"])
    try:
        dtype = numpy.dtype(name)
    except TypeError:
        raise ValueTransferError(
            f"NumPy has no type {name}, and PyTorch is not installed here: convert the tensor first, for "
            "example with `.float()`"
        ) from None
    return numpy.frombuffer(bytearray(buffer), dtype).reshape(description["shape"])


def _restore_tuples(descr: Any) -> Any:
    """Convert the lists in the JSON form of a NumPy dtype description back to tuples."""
    if isinstance(descr, str):
        return descr
    return [
        tuple(
            tuple(part)
            if number == 2
            else _restore_tuples(part)
            if number == 1 and isinstance(part, list)
            else part
            for number, part in enumerate(each)
        )
        for each in descr
    ]


def _dumps_by_reference(value: Any) -> bytes:
    return pickle.dumps(value, protocol=5)


def _dumps_by_value() -> Callable[[Any], bytes]:
    """Return a function that pickles values with cloudpickle, which includes the code of functions
    that the notebook defines. If cloudpickle is not installed, the function uses pickle."""
    try:
        import cloudpickle
    except ImportError:
        return _dumps_by_reference
    return lambda value: bytes(cloudpickle.dumps(value, protocol=5))


def _find_culprit(
    value: Any, path: str, dumps: Callable[[Any], bytes], error: Exception
) -> tuple[str, str]:
    """Return the path of the innermost part of ``value`` that cannot be pickled, and the reason.

    Args:
        value: value that cannot be pickled.
        path: path of this value in messages.
        dumps: function that pickles a value.
        error: exception that ``dumps`` raised for the value.
    """
    seen: set[int] = set()
    while True:
        seen.add(id(value))
        for name, part in _list_parts(value, path):
            if id(part) in seen:
                continue
            try:
                dumps(part)
            except Exception as inner:  # noqa: BLE001 - as in Encoder
                value, path, error = part, name, inner
                break
        else:
            return path, f"{error}" or type(error).__name__


def _list_parts(value: Any, path: str) -> list[tuple[str, Any]]:
    """Return the paths and values of the parts of ``value``: items, attributes and closure
    variables; at most ``_MOST_CHILDREN``."""
    if isinstance(value, dict):
        return [(f"{path}[{key!r}]", each) for key, each in list(value.items())[:_MOST_CHILDREN]]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"{path}[{n}]", each) for n, each in enumerate(list(value)[:_MOST_CHILDREN])]
    parts = [(f"{path}.{name}", each) for name, each in getattr(value, "__dict__", {}).items()]
    for name, cell in zip(
        getattr(getattr(value, "__code__", None), "co_freevars", ()),
        getattr(value, "__closure__", None) or (),
        strict=False,
    ):
        try:
            parts.append((f"{path}.{name}", cell.cell_contents))
        except ValueError:  # the variable has no value yet
            continue
    return parts[:_MOST_CHILDREN]
