"""Emitted files on their way out: to standard output, to a file, or into a folder."""

from __future__ import annotations

import sys
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from hierarchies import InputError


def deliver(files: Sequence[dict[str, Any]], output: str | None) -> None:
    """Write files where the caller wants them; one alone may go to standard output.

    Raises InputError for several files and no folder, and for what cannot be written.
    """
    if output is None:
        if len(files) > 1:
            names = ", ".join(file["name"] for file in files[:3])
            raise InputError(
                f"the target consists of {len(files)} files: {names}, ...",
                hint="name a folder for them with -o",
            )
        sys.stdout.buffer.write(_content(files[0]))
        sys.stdout.buffer.flush()
        return
    place = Path(output)
    try:
        if len(files) > 1 or place.is_dir() or output.endswith(("/", "\\")):
            place.mkdir(parents=True, exist_ok=True)
            for file in files:
                (place / file["name"]).write_bytes(_content(file))
        else:
            place.write_bytes(_content(files[0]))
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=output) from None
    typer.echo(f"wrote {len(files)} {'file' if len(files) == 1 else 'files'} to {output}", err=True)


def _content(file: dict[str, Any]) -> bytes:
    content: bytes = file["text"].encode() if "text" in file else b64decode(file["base64"])
    return content
