"""Arrays that a model closes over, as text: their compressed bytes in base64."""

from __future__ import annotations

import base64
import binascii
import zlib

from hierarchies import InputError

MOST_BYTES = 2**26
"""The limit for one array: larger arrays are parameters, or part of a batch."""
LONG = 4096
"""Characters per line of a step's text: the largest array takes about 20,000 lines."""


def check_size(size_bytes: int, *, where: str = "") -> None:
    """Raise InputError for an array that is too large for a text."""
    if size_bytes > MOST_BYTES:
        problem = f"the model closes over an array of {size_bytes} bytes"
        hint = f"at most {MOST_BYTES}: pass it as a parameter, or as part of the batch"
        raise InputError(problem, where=where, hint=hint)


def pack(data: bytes, width: int = LONG) -> list[str]:
    """Encode bytes as lines of ``width`` characters."""
    text = base64.b64encode(zlib.compress(data, 9)).decode("ascii")
    return [text[at : at + width] for at in range(0, len(text), width)]


def unpack(text: str, size_bytes: int) -> bytes:
    """Decode bytes from text. Raises InputError unless there are exactly ``size_bytes``."""
    check_size(size_bytes)
    reader = zlib.decompressobj()
    try:
        # One byte more than expected at most, so a small text cannot unpack to fill the memory.
        data = reader.decompress(base64.b64decode(text, validate=True), size_bytes + 1)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise InputError(f"damaged values: {error}", hint=_RETRACE_HINT) from None
    if len(data) != size_bytes or not reader.eof:
        raise InputError(f"these are not the values of {size_bytes} bytes", hint=_RETRACE_HINT)
    return data


_RETRACE_HINT = "trace the model again"
