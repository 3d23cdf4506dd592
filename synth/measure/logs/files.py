"""Reads logs from files: of any size up to a bound, in any encoding, with any other content."""

from __future__ import annotations

from pathlib import Path

from hierarchies import InputError

MOST_BYTES = 2**28


def read_log_text(path: str | Path) -> str:
    """Returns the text of a log; undecodable bytes become U+FFFD.

    Raises InputError for a file that cannot be read, or is too large for a log.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except ValueError:
        raise InputError("is no name of a file", where=repr(str(path))[:80]) from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES} bytes", where=str(path), hint="is it a log?")
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return raw.decode(encoding, errors="replace")
