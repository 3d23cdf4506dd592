"""Encodes the few protobuf wire types that a trace needs, without the protobuf runtime.

See https://protobuf.dev/programming-guides/encoding. A field is its number and wire type (0 a
varint, 2 a length and bytes) as one varint, then the value. Fields are written even if zero,
because in a oneof that distinguishes zero from unset. Lists of numbers are packed.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _LENGTH = 0, 2


def encode_varint(number: int) -> bytes:
    """Encodes a number from 0 to 2**64 - 1, seven bits a byte, lowest first."""
    if not 0 <= number < 1 << 64:
        raise AssertionError(f"{number} is not an unsigned 64-bit number")
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def encode_integer(field: int, number: int) -> bytes:
    """Encodes a field with a number, bool or enum that is not negative."""
    return encode_varint(field << 3 | _VARINT) + encode_varint(number)


def encode_bytes(field: int, content: bytes | str) -> bytes:
    """Encodes a field with a string, bytes, or another message."""
    raw = content.encode() if isinstance(content, str) else content
    return encode_varint(field << 3 | _LENGTH) + encode_delimited(raw)


def encode_packed(field: int, numbers: Iterable[int]) -> bytes:
    """Encodes a field with a list of numbers; empty if there are none."""
    content = b"".join(encode_varint(number) for number in numbers)
    return encode_bytes(field, content) if content else b""


def encode_delimited(message: bytes) -> bytes:
    """Prefixes a message with its length, as messages follow each other in a file."""
    return encode_varint(len(message)) + message
