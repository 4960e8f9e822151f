"""Reader of scalars in TensorBoard event files: records of TensorFlow's TFRecord format, each an
Event of ``tensorflow/core/util/event.proto``. Other content of the records is ignored."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from collections.abc import Iterator

MOST_RECORD_BYTES = 64 << 10
"""Maximum size in bytes of a record that is read. A scalar takes less than 100; larger records are
images or graphs."""
_HEAD, _FOOT = 12, 4
_MASK = 0xA282EAD8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2
"""Numbers that TensorFlow uses for the data types float and double."""


class EventFileError(Exception):
    """Error: the data is not from a TensorBoard event file, or the file was overwritten."""


def read_events(data: bytes) -> tuple[list[tuple[str, int, float]], int, int]:
    """Return the scalars in a part of a TensorBoard event file, the length of its complete records
    in bytes, and the number of bytes to skip after them.

    Scalars are ``(tag, step, value)``. Bytes to skip belong to a record that is too large to be
    read and not contained completely in ``data``.

    Raises:
        EventFileError: a checksum is wrong, or a record is not an event.
    """
    points: list[tuple[str, int, float]] = []
    at = 0
    while at + _HEAD <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        (check,) = struct.unpack_from("<I", data, at + 8)
        if check != compute_masked_crc(data[at : at + 8]):
            raise EventFileError(f"the checksum of a record's length is wrong at byte {at}")
        end = at + _HEAD + length + _FOOT
        if end > len(data):
            return points, at, end - at if length > MOST_RECORD_BYTES else 0
        if length <= MOST_RECORD_BYTES:
            record = data[at + _HEAD : end - _FOOT]
            if struct.unpack_from("<I", data, end - _FOOT)[0] != compute_masked_crc(record):
                raise EventFileError(f"the checksum of a record is wrong at byte {at}")
            try:
                points += parse_scalars(record)
            except (struct.error, IndexError, ValueError) as error:
                raise EventFileError(f"the record at byte {at} is not an event") from error
        at = end
    return points, at, 0


def parse_scalars(record: bytes) -> list[tuple[str, int, float]]:
    """Return the tag, step and value of each scalar in the bytes of one TensorBoard event.

    Raises ``struct.error``, ``IndexError`` or ``ValueError`` if the bytes are not an event.
    """
    step, summaries = 0, []
    for number, kind, value in _parse_fields(record):
        if number == 2 and kind == _VARINT and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    points = []
    for summary in summaries:
        for number, _, value in _parse_fields(summary):
            if number == 1 and isinstance(value, bytes):
                scalar = _parse_scalar(value)
                if scalar is not None:
                    points.append((scalar[0], step, scalar[1]))
    return points


def _parse_scalar(value: bytes) -> tuple[str, float] | None:
    """Return tag and number of a ``Summary.Value`` message; None if it does not contain a single
    number."""
    tag, scalar = None, None
    for number, kind, part in _parse_fields(value):
        if number == 1 and isinstance(part, bytes):
            tag = part.decode("utf-8", "replace")
        elif number == 2 and kind == _FIXED32 and isinstance(part, bytes):
            (scalar,) = struct.unpack("<f", part)
        elif number == 8 and isinstance(part, bytes):
            scalar = _parse_tensor_scalar(part)
    return None if tag is None or scalar is None else (tag, scalar)


def _parse_tensor_scalar(tensor: bytes) -> float | None:
    """Return the single number in a ``TensorProto`` message, as TensorFlow 2 writes scalars; None
    if there is none."""
    kind, packed = 0, b""
    for number, _, part in _parse_fields(tensor):
        if number == 1 and isinstance(part, int):
            kind = part
        elif number in (4, 5, 6) and isinstance(part, bytes):
            packed = part
    if kind == _FLOAT and len(packed) == 4:
        return float(struct.unpack("<f", packed)[0])
    if kind == _DOUBLE and len(packed) == 8:
        return float(struct.unpack("<d", packed)[0])
    return None


def _parse_fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield field number, wire type and value of each field in a protocol buffer message."""
    at = 0
    while at < len(message):
        key, at = _parse_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _parse_varint(message, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            length, at = _parse_varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("an obsolete wire type")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield number, kind, message[at : at + length]
        at += length


def _parse_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def compute_masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C (Castagnoli) of ``data``, as TFRecord computes it."""
    check = 0xFFFFFFFF
    for byte in data:
        check = _TABLE[(check ^ byte) & 0xFF] ^ (check >> 8)
    check ^= 0xFFFFFFFF
    return ((check >> 15 | check << 17) + _MASK) & 0xFFFFFFFF


def _make_crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _make_crc_table()
