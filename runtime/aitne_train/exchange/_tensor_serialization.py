"""Serialization of a compressed tensor with a header, for ranks whose tensors differ in length and
context.
"""

from __future__ import annotations

import json
from typing import Any

import torch

from aitne_train.collective_request import find_dtype

_LENGTH_BYTES = 4


def pack_tensor(row: torch.Tensor, context: Any) -> torch.Tensor:
    """Return one tensor of bytes (uint8): the length of a JSON header, the header with dtype, shape
    and ``context`` of ``row``, and the elements of ``row``.

    Raises:
        TypeError: ``context`` cannot be converted to JSON.
    """
    try:
        head = json.dumps([str(row.dtype).removeprefix("torch."), list(row.shape), context])
    except (TypeError, ValueError) as error:
        raise TypeError(
            "The context of a compressor whose rows are gathered travels with each row, so it must "
            f"consist of numbers, strings, lists and dicts: {error}."
        ) from error
    header = head.encode()
    start = bytearray(len(header).to_bytes(_LENGTH_BYTES, "little") + header)
    elements = row.contiguous().view(-1).view(torch.uint8)
    return torch.cat((torch.frombuffer(start, dtype=torch.uint8).to(row.device), elements))


def unpack_tensor(payload: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """Return the tensor and the context that were passed to ``pack_tensor``."""
    begin = _LENGTH_BYTES + int.from_bytes(bytes(payload[:_LENGTH_BYTES].tolist()), "little")
    dtype, shape, context = json.loads(bytes(payload[_LENGTH_BYTES:begin].tolist()))
    # A copy: elements must begin at an address that is a multiple of their size.
    return payload[begin:].clone().view(find_dtype(dtype)).view(shape), context
