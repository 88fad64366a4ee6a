"""The fields of a protobuf message, without a schema."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["fields"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of every field in order: an int for a varint, else bytes.

    Raises:
        ValueError: the message is cut off or is not protobuf.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {at}")
        if at + size > len(message):
            raise ValueError(f"a field ends at byte {at + size} of {len(message)}")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError(f"cut off at byte {at}")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError(f"a number of more than 10 bytes before byte {at}")
