"""A folder of entries on disk: texts by key, safe under concurrent processes, bounded in size.

An entry is a file of three lines: a digest of the rest, a digest of the code's edition and of the
key, and the text. It is written under another name and then renamed, so readers see all of it or
nothing. What is damaged is not read, and is written again; what another edition wrote is not found.
No answer needs the folder: where it cannot be used, commands work without it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile

from synth.cache.choice import VARIABLE, is_kept, user_folder
from synth.cache.edition import edition

MOST_BYTES = 256 * 2**20
"""The largest size of the folder; entries that were not used for longest are removed."""

LEFT_SHARE = 0.75
"""The share of ``MOST_BYTES`` that is left when entries are removed."""

_ENDING, _PARTIAL = ".collsynth", "collsynth-partial-"

log = logging.getLogger("collsynth")


@dataclass
class CacheFolder:
    """Entries in a folder. Mutable: it counts what it writes, and stops after an error."""

    path: Path
    most_bytes: int = MOST_BYTES
    _writable: bool = True
    _unswept_bytes: float = field(default=float("inf"))

    def find(self, key: str) -> str | None:
        """Returns the text of an entry; None if there is none, or if it is damaged."""
        name = _name(key)
        file = self._file(name)
        try:
            digest, _, rest = file.read_text(encoding="utf-8").partition("\n")
        except (OSError, ValueError):
            return None
        written_for, _, text = rest.partition("\n")
        if written_for != name or digest != _digest(rest):
            return None
        with suppress(OSError):  # a folder that is only read
            os.utime(file)
        return text

    def keep(self, key: str, text: str) -> None:
        """Writes an entry; warns once, and writes nothing more, if that fails."""
        if not self._writable:
            return
        name = _name(key)
        rest = f"{name}\n{text}"
        try:
            self._write(self._file(name), f"{_digest(rest)}\n{rest}")
            self._bound(len(rest))
        except OSError as error:
            self._writable = False
            a_file = self.path.exists() and not self.path.is_dir()
            why = "it is a file, not a folder" if a_file else error.strerror or str(error)
            log.warning("collsynth: nothing is kept in %s: %s", self.path, why)

    def _file(self, name: str) -> Path:
        return self.path / f"{name[:32]}{_ENDING}"

    def _write(self, file: Path, content: str) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = NamedTemporaryFile(  # noqa: SIM115  renamed once it is closed
            "w", encoding="utf-8", dir=self.path, prefix=_PARTIAL, delete=False
        )
        try:
            with partial:
                partial.write(content)
            os.replace(partial.name, file)
        except BaseException:
            Path(partial.name).unlink(missing_ok=True)
            raise

    def _bound(self, written_bytes: int) -> None:
        """Removes the oldest files if the folder is too large: at first, and now and then."""
        self._unswept_bytes += written_bytes
        if self._unswept_bytes < (1 - LEFT_SHARE) * self.most_bytes:
            return
        self._unswept_bytes = 0
        files = sorted(self._list_files())
        total = sum(size for _, size, _ in files)
        if total <= self.most_bytes:
            return
        for _, size, file in files:
            if total <= LEFT_SHARE * self.most_bytes:
                break
            with suppress(OSError):  # another process removed it
                file.unlink()
            total -= size

    def _list_files(self) -> Iterator[tuple[float, int, Path]]:
        """Yields the time, bytes and path of each file that this class writes, and of no other."""
        for entry in os.scandir(self.path):
            if not (entry.name.endswith(_ENDING) or entry.name.startswith(_PARTIAL)):
                continue
            with suppress(OSError):
                status = entry.stat()
                yield status.st_mtime, status.st_size, Path(entry.path)


def chosen_folder(environment: Mapping[str, str] = os.environ) -> CacheFolder | None:
    """Returns the folder of this process; None if nothing is to be kept on disk."""
    if not is_kept(environment) or not edition():
        return None
    path = environment.get(VARIABLE) or user_folder(environment)
    return None if path is None else _open_folder(str(path))


@cache
def _open_folder(path: str) -> CacheFolder:
    """One object for each folder, so that a process warns once."""
    return CacheFolder(Path(path))


def _name(key: str) -> str:
    return _digest(f"{edition()}\n{key}")


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
