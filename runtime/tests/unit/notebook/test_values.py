"""Values that kernel and ranks send each other."""

from __future__ import annotations

import json
import math
import struct
import sys
import threading
from collections import OrderedDict
from typing import Any

import pytest

from aitne_train.notebook.value_encoding import Encoder, ValueTransferError, decode_value
from tests.support.requirements import need_package


def _through(value: Any) -> Any:
    encoder = Encoder()
    description = json.loads(json.dumps(encoder.encode_value(value, "x")))
    return decode_value(description, [bytes(memoryview(each)) for each in encoder.buffers])


def _kinds(value: Any) -> str:
    return json.dumps(Encoder().encode_value(value, "x"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**80,
        0.1,
        math.inf,
        "ä",
        b"\0",
        bytearray(b"x"),
        [1, (2, [3])],
        {"a": 1, 2: None, None: {"b": ()}},
        OrderedDict([("b", 1), ("a", 2)]),
        {1, 2},
        range(3),
    ],
)
def test_a_value_arrives_equal_and_of_its_type(value: Any) -> None:
    arrived = _through(value)
    assert arrived == value
    assert type(arrived) is type(value)


def test_arrays_arrive_without_pickle() -> None:
    need_package("numpy")
    import numpy

    cases = [
        numpy.arange(6.0).reshape(2, 3),
        numpy.arange(6).reshape(2, 3).T,
        numpy.array(5),
        numpy.zeros((0, 3), dtype="float32"),
        numpy.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
    ]
    for array in cases:
        assert "pickle" not in _kinds(array)
        arrived = _through({"k": [array]})["k"][0]
        assert arrived.dtype == array.dtype
        assert arrived.shape == array.shape
        assert (arrived == array).all()
        assert arrived.flags.writeable


def test_tensors_arrive_without_pickle() -> None:
    need_package("torch")
    import torch

    cases = [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.tensor(5),
        torch.zeros(0, 3),
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(2, requires_grad=True),
        torch.tensor([True, False]),
    ]
    for tensor in cases:
        assert "pickle" not in _kinds(tensor)
        arrived = _through(tensor)
        assert arrived.dtype == tensor.dtype
        assert arrived.requires_grad == tensor.requires_grad
        assert torch.equal(arrived, tensor)


class _Config:
    def __init__(self) -> None:
        self.callbacks = [1, {"lock": threading.Lock()}]


def test_a_value_that_cannot_be_pickled_is_named_with_its_path() -> None:
    with pytest.raises(
        ValueTransferError, match=r"^config\['a'\]\.callbacks\[1\]\['lock'\] cannot be sent: "
    ) as failed:
        Encoder().encode_value({"a": _Config()}, "config")
    assert "lock" in str(failed.value)


def test_values_that_a_function_holds_are_named_with_their_path() -> None:
    lock = threading.Lock()

    def work() -> bool:
        return lock.locked()

    with pytest.raises(ValueTransferError, match=r"^work\.lock cannot be sent: "):
        Encoder().encode_value(work, "work")


def test_functions_are_not_sent_by_value_to_another_python() -> None:
    def work() -> None:
        pass

    with pytest.raises(ValueTransferError, match=r"^work cannot be sent: "):
        Encoder(same_python=False).encode_value(work, "work")


def test_a_list_that_contains_itself_arrives() -> None:
    value: list[Any] = [1]
    value.append(value)
    arrived = _through(value)
    assert arrived[0] == 1
    assert arrived[1] is arrived or arrived[1][1] is arrived[1]


def test_a_damaged_description_is_refused() -> None:
    with pytest.raises(ValueTransferError, match="cannot be read here"):
        decode_value({"is": "bytes", "buffer": 3}, [])


def _tensor(dtype: str, content: bytes, shape: list[int]) -> Any:
    description = {"is": "tensor", "dtype": dtype, "shape": shape, "requires_grad": True}
    return decode_value({**description, "parameter": True, "buffer": 0}, [content])


def test_tensors_arrive_as_arrays_where_pytorch_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numpy = pytest.importorskip("numpy")
    monkeypatch.setitem(sys.modules, "torch", None)
    weights = _tensor("float32", numpy.arange(6, dtype="float32").tobytes(), [2, 3])
    assert isinstance(weights, numpy.ndarray)
    assert weights.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    weights += 1  # as writable as a tensor
    half = _tensor("bfloat16", struct.pack("<HH", 0x3FC0, 0xC000), [2])
    assert (half.dtype, half.tolist()) == (numpy.dtype("float32"), [1.5, -2.0])
    assert _tensor("int64", b"", [0]).shape == (0,)
    assert _tensor("bool", b"\x01", []).item() is True
    with pytest.raises(ValueTransferError, match="NumPy has no type float8_e4m3fn"):
        _tensor("float8_e4m3fn", b"\x01", [1])


def test_a_missing_package_is_named_with_the_python_that_lacks_it() -> None:
    pickled = b"cno_such_package\nthing\n."
    with pytest.raises(ValueTransferError, match="needs the package no_such_package") as failed:
        decode_value({"is": "pickle", "buffer": 0}, [pickled])
    assert sys.executable in str(failed.value)
