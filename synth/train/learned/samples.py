"""Kernels that were compiled and measured, as they are kept: a file of JSON.

Where they were measured is part of it. Of a kernel there is what an estimate sees, no text: the
text follows from group, number and seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import cpu_count
from statistics import median

from pydantic import ConfigDict, TypeAdapter, ValidationError

from hierarchies import InputError
from synth.train.learned.kernels import KINDS, OUTSIDE, Kernel, Part
from synth.train.profiles.profile import processor, versions_of

LEAST_SAMPLES = 100
LEAST_GROUPS = 3
"""Fewer are no basis: one group is held out, another says how far off others are."""

XLA = "xla"
RUNTIMES = {XLA: "jax", "inductor": "torch"}
"""Compilers, and the runtime that each is of."""

Row = tuple[str, int, tuple[float, ...], int, int, tuple[tuple[int, ...], ...]]


@dataclass(frozen=True)
class Machine:
    """What seconds depend on beside the work: one of RUNTIMES compiles."""

    compiler: str
    processor: str
    cores: int
    versions: dict[str, str]


@dataclass(frozen=True)
class Sample:
    """One kernel of a group (a family, or a model of the zoo), and its seconds in each process."""

    group: str
    number: int
    kernel: Kernel
    each: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """What it takes in the middle of the processes."""
        return median(self.each)

    @property
    def spread(self) -> float:
        """In how wide a share of that, to either side, it lies in half of the processes."""
        off = sorted(abs(one - self.seconds) for one in self.each)
        return off[len(off) // 2] / self.seconds


@dataclass(frozen=True)
class Samples:
    """All that was measured at one time; ``refused`` counts what was not kept, by why."""

    machine: Machine
    date: str
    seed: int
    refused: dict[str, int]
    samples: tuple[Sample, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """The families and models, each once."""
        return tuple(dict.fromkeys(one.group for one in self.samples))


@dataclass(frozen=True)
class _Kept:
    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    machine: Machine
    date: str
    seed: int
    refused: dict[str, int]
    rows: tuple[Row, ...]


_FILE = TypeAdapter(_Kept)


def samples_text(found: Samples) -> str:
    """As JSON, a kernel a line."""
    head = _FILE.dump_json(
        _Kept(found.machine, found.date, found.seed, found.refused, ()), exclude={"rows"}
    ).decode()
    lines = [_ROW.dump_json(_row(one)).decode() for one in found.samples]
    return head[:-1] + ',\n"rows":[\n' + ",\n".join(lines) + "\n]}\n"


_ROW: TypeAdapter[Row] = TypeAdapter(Row)


def read_samples(text: str, where: str = "samples") -> Samples:
    """What ``samples_text`` wrote. Raises InputError for another text."""
    hint = "'collsynth estimate train -o FILE' makes them"
    try:
        kept = _FILE.validate_json(text)
        rows = tuple(map(_sample, kept.rows))
    except ValidationError as error:
        [first, *_] = error.errors()
        at = ".".join(map(str, first["loc"])) or "the text"
        raise InputError(f"no samples: {at}: {first['msg']}", where=where, hint=hint) from None
    except (ValueError, IndexError) as error:
        raise InputError(f"no samples: {error}", where=where, hint=hint) from None
    return Samples(kept.machine, kept.date, kept.seed, kept.refused, rows)


def check_enough(samples: Sequence[Sample], where: str = "samples") -> None:
    """Raises InputError for too few samples, or groups, which says how many more."""
    groups = Counter(one.group for one in samples)
    if len(samples) < LEAST_SAMPLES:
        more = LEAST_SAMPLES - len(samples)
        problem = f"{len(samples)} samples are too few"
        raise InputError(problem, where=where, hint=f"{more} more, of {LEAST_SAMPLES} at least")
    if len(groups) < LEAST_GROUPS:
        problem = f"samples of {len(groups)} families and models are too few"
        more = LEAST_GROUPS - len(groups)
        raise InputError(problem, where=where, hint=f"of {more} more, as each is held out once")


def _row(one: Sample) -> Row:
    parts = tuple(
        (
            KINDS.index(part.kind),
            part.flops,
            part.read_bytes,
            part.made_bytes,
            part.minor,
            int(part.strided),
            int(part.kept),
            *part.reads,
        )
        for part in one.kernel.parts
    )
    return (
        one.group,
        one.number,
        tuple(float(f"{1e6 * seconds:.4g}") for seconds in one.each),
        one.kernel.read_bytes,
        one.kernel.made_bytes,
        parts,
    )


def _sample(row: Row) -> Sample:
    group, number, micros, read, made, parts = row
    found = tuple(_part(at, one) for at, one in enumerate(parts))
    if not found or min(micros, default=0.0) <= 0:
        raise ValueError(f"{group} {number} has no operations, or takes no time")
    return Sample(group, number, Kernel(found, read, made), tuple(one / 1e6 for one in micros))


def _part(place: int, row: tuple[int, ...]) -> Part:
    kind, flops, read, made, minor, strided, kept, *reads = row
    if not 0 <= kind < len(KINDS) or min(flops, read, made, minor - 1) < 0:
        raise ValueError(f"an operation {row}")
    if any(not OUTSIDE <= one < place for one in reads):
        raise ValueError(f"operation {place} reads what is made after it")
    return Part(KINDS[kind], tuple(reads), flops, read, made, minor, bool(strided), bool(kept))


def machine_here(compiler: str = XLA) -> Machine:
    """This one, with the versions of a compiler that is known. Raises InputError for another."""
    if compiler not in RUNTIMES:
        known = " or ".join(RUNTIMES)
        raise InputError(f"no compiler {compiler[:40]!r}", hint=f"{known}")
    return Machine(compiler, processor(), cpu_count() or 1, versions_of(RUNTIMES[compiler]))


def machine_words(machine: Machine) -> str:
    """One line for people."""
    versions = ", ".join(f"{name} {one}" for name, one in machine.versions.items())
    return f"{machine.processor}, {machine.cores} cores, {machine.compiler}, {versions}"
