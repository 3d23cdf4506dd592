"""Where results go: to standard output, to a file, or into a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from hierarchies import InputError
from synth.ask.answers.parts import AnyFile

CLOSED_PIPE = 141
"""The exit code after the reader went away (``| head -1``): what shells report for SIGPIPE."""


@contextmanager
def flush_stdout() -> Iterator[None]:
    """For printing only: at its end all that was printed has reached standard output.

    Raises InputError for what cannot be written. Ends the command quietly, with CLOSED_PIPE, if
    the reader is gone (``| head -1``). Rich raises SystemExit then, so any SystemExit counts.
    """
    if sys.stdout is None:
        raise InputError("cannot write: it is closed", where="standard output")
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        _give_up()
        raise typer.Exit(CLOSED_PIPE) from None
    except OSError as error:
        _give_up()
        raise InputError(f"cannot write: {error.strerror}", where="standard output") from None


def deliver(files: Sequence[AnyFile], output: str | None) -> None:
    """Write files where the caller wants them; one alone may go to standard output.

    Folders that are not there are made. Several are written all or not at all. Raises InputError
    for several files and no folder, and for what cannot be written.
    """
    if output is None:
        if len(files) > 1:
            raise InputError(_many_files_hint(files), hint="name a folder for them with -o")
        with flush_stdout():
            sys.stdout.buffer.write(files[0].content)
        return
    if not output:
        raise InputError("no name is given", where="-o", hint="name a file or a folder")
    place = Path(output)
    try:
        if len(files) > 1 or place.is_dir() or output.endswith(("/", "\\")):
            _fill(place, files)
        else:
            _write(place, files[0].content)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=output) from None
    typer.echo(f"wrote {len(files)} {'file' if len(files) == 1 else 'files'} to {output}", err=True)


def _write(place: Path, content: bytes) -> None:
    """Write under another name first, so that a full disk leaves what was there, or nothing.

    What is no plain file (/dev/null, a pipe) is written to as it is.
    """
    if place.exists() and not place.is_file():
        place.write_bytes(content)
        return
    target = place.resolve()
    if not target.parent.exists():
        target.parent.mkdir(parents=True)
    with TemporaryDirectory(prefix=".collsynth-", dir=target.parent) as name:
        draft = Path(name) / "draft"
        draft.write_bytes(content)
        if target.exists():
            draft.chmod(target.stat().st_mode)
        draft.replace(target)


def _fill(folder: Path, files: Sequence[AnyFile]) -> None:
    """Write all files under other names first, so that a full disk leaves what was there."""
    if folder.exists() and not folder.is_dir():
        problem = (
            f"{_many_files_hint(files)}, and this is a file" if len(files) > 1 else "this is a file"
        )
        raise InputError(problem, where=str(folder), hint="name a folder with -o")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".collsynth-", dir=folder) as name:
        drafts = Path(name)
        for file in files:
            for place in (drafts, folder):
                (place / file.name).parent.mkdir(parents=True, exist_ok=True)
            (drafts / file.name).write_bytes(file.content)
        for file in files:
            (drafts / file.name).replace(folder / file.name)


def _many_files_hint(files: Sequence[AnyFile]) -> str:
    names = ", ".join(file.name for file in files[:3])
    return f"the target consists of {len(files)} files: {names}{', ...' if len(files) > 3 else ''}"


def _give_up() -> None:
    """Discard what is not written yet: the interpreter would try again when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
