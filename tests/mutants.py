"""Mistakes made on purpose: each is put into a copy of the house, and tests of its room must fail.

``python tests/mutants.py`` tries all of ``mutants.toml``, ``python tests/mutants.py bound`` those
of files with that in their path. What survives says what the tests do not hold. It ends with 1 if
more than one in twenty survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants.toml"
LEAST_KILLED = 0.95
AT_ONCE = 2
PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Mutant:
    """One mistake: ``old``, which stands once in the file, becomes ``new``; who should notice."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def put_into(self, house: Path) -> None:
        """Make the mistake. AssertionError if what it changes does not stand there once."""
        path = house / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"{self.file}: {self.old!r} stands {text.count(self.old)}x"
        )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def mutants() -> tuple[Mutant, ...]:
    """All that are listed."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return tuple(Mutant(one["file"], one["old"], one["new"], tuple(one["tests"])) for one in listed)


def copied(to: Path) -> Path:
    """The files that git knows of, copied; changes that are not committed included."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return to


def killed(mutant: Mutant, house: Path) -> bool:
    """Whether a test fails, or never ends, where the mistake was made; it is mended again."""
    whole = (house / mutant.file).read_bytes()
    mutant.put_into(house)
    asked = ["-q", "-x", "-m", "not slow or thorough", "-p", "no:cacheprovider", "-p", "no:xdist"]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", *asked, *mutant.tests],
            cwd=house,
            env={**os.environ, "PYTHONPATH": str(house)},
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
        )
        return ended.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        (house / mutant.file).write_bytes(whole)


def main(wanted: list[str]) -> int:
    """Try the mutants of some files, or all, and say what became of each."""
    chosen = [one for one in mutants() if not wanted or any(part in one.file for part in wanted)]
    with tempfile.TemporaryDirectory() as folder:
        houses: SimpleQueue[Path] = SimpleQueue()
        for number in range(AT_ONCE):
            houses.put(copied(Path(folder, str(number))))

        def tried(mutant: Mutant) -> bool:
            house = houses.get()
            try:
                return killed(mutant, house)
            finally:
                houses.put(house)

        count = 0
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for mutant, dead in zip(chosen, pool.map(tried, chosen), strict=True):
                count += dead
                change = f"{mutant.old!r} -> {mutant.new!r}"
                print(f"{'killed  ' if dead else 'SURVIVED'} {mutant.file}: {change}", flush=True)
    print(f"{count} of {len(chosen)} killed")
    return 0 if count >= LEAST_KILLED * len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
