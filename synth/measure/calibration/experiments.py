"""The tests to run in order to fit a description, and the numbers that each test determines.

Every level is timed alone (groups whose ranks differ at that level only), from the inside out
(groups that fill one child), and with all others. Where the runtime would choose, the ring is
forced to determine links, and each protocol to determine latencies. NCCL_TESTS_SPLIT forms the
groups (README of rccl-tests).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from shlex import quote

from grammar import Collective, Goal
from hierarchies import InputError, System
from hierarchies.units import describe_total
from synth.collective.algorithms import nccl_tests
from synth.collective.algorithms.algorithms import Algorithm
from synth.collective.algorithms.nccl_model import NVLS, RING, SPELLINGS, TREE, Ranks, has_algorithm
from synth.collective.algorithms.protocols import Protocol, protocols
from synth.measure.calibration.candidates import Predictor
from synth.measure.calibration.measurements import Measurement
from synth.measure.logs.matching import find_host_level, join_with_commas

SMALLEST_BYTES, LARGEST_BYTES, LARGEST_LL_BYTES = 2**10, 2**30, 2**26
START_SECONDS = 10.0
"""An approximate time to start a test, for the printed run time."""
LOOK_HEADING, FIT_HEADING = "Look at their logs", "Calibrate with them"
"""The steps after the tests: first check whether the machine performs as expected."""
_PROTOCOL = {Protocol.SIMPLE: "Simple", Protocol.LL: "LL", Protocol.LL128: "LL128"}


@dataclass(frozen=True)
class RankGroups:
    """Groups of ranks: members and busy as in ``Measurement``, and how to form them.

    ``split`` is the value of NCCL_TESTS_SPLIT, "" for one group of all ranks. ``where`` describes
    the groups.
    """

    members: tuple[int, ...]
    busy: tuple[int, ...]
    split: str
    where: str
    name: str


@dataclass(frozen=True)
class Experiment:
    """One test to run: the collective, its groups, forced choices, its purpose, its file.

    ``seconds`` is the approximate run time, predicted from the description.
    """

    name: str
    goal: Goal
    groups: RankGroups
    algorithm: str | None
    protocol: Protocol | None
    smallest_bytes: int
    largest_bytes: int
    tells: tuple[str, ...]
    seconds: float

    @property
    def file(self) -> str:
        return f"{self.name}.txt"

    @property
    def program(self) -> str:
        return nccl_tests.suite_program(self.goal.value)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the run, as NCCL and RCCL name them."""
        found = {}
        if self.groups.split:
            found["NCCL_TESTS_SPLIT"] = self.groups.split
        if self.algorithm:
            found["NCCL_ALGO"] = SPELLINGS[self.algorithm]
        if self.protocol:
            found["NCCL_PROTO"] = _PROTOCOL[self.protocol]
        return found

    @property
    def arguments(self) -> str:
        return nccl_tests.suite_arguments(self.smallest_bytes, self.largest_bytes)

    @property
    def notes(self) -> tuple[str, ...]:
        """Comment lines to write above the output, so that the log itself states what was run."""
        ways = {k: v for k, v in self.environment.items() if k != "NCCL_TESTS_SPLIT"}
        comments = [f"# collective: {self.program.removesuffix('_perf')}"]
        comments.append(f"# members: {join_with_commas(self.groups.members)}")
        comments.append(f"# busy: {join_with_commas(self.groups.busy)}")
        if ways:
            comments.append("# algo: " + " ".join(f"{key}={value}" for key, value in ways.items()))
        return tuple(comments)


def experiments(system: System) -> tuple[Experiment, ...]:
    """Returns a system's tests, innermost level first. Raises InputError for one device."""
    if system.devices == 1:
        raise InputError(f"{system.name} has one device", hint="nothing is sent anywhere")
    found: dict[str, Experiment] = {}
    for groups in _all_groups(system):
        for experiment in _experiments_on(system, groups):
            found.setdefault(experiment.name, experiment)
    return tuple(found.values())


def isolating_experiment(system: System, level: str) -> Experiment | None:
    """Returns the test of one level's bandwidth alone; None if the level has one child."""
    position = system.hierarchy.index(level)
    groups = next(_groups_at_level(system, position), None)
    return None if groups is None else next(_experiments_on(system, groups), None)


def _all_groups(system: System) -> Iterator[RankGroups]:
    counts = system.hierarchy.cardinalities
    branching = [level for level, count in enumerate(counts) if count > 1]
    for level in reversed(branching):
        yield from _groups_at_level(system, level)
    for level in reversed(branching):
        yield from _groups_inside(system, level)


def _groups_at_level(system: System, level: int) -> Iterator[RankGroups]:
    """Yields groups that span one level only; within one outer unit if no split forms them."""
    counts, name = system.hierarchy.cardinalities, system.hierarchy.names[level]
    if counts[level] == 1:
        return
    inner = prod(counts[level + 1 :])
    members = tuple(count if i == level else 1 for i, count in enumerate(counts))
    where = f"level {name} alone, all at once"
    if inner == 1:
        split = f"DIV {counts[level]}" if system.devices > counts[level] else ""
        yield RankGroups(members, counts, split, where, f"{name}-alone")
    elif system.devices == counts[level] * inner:
        yield RankGroups(members, counts, f"MOD {inner}", where, f"{name}-alone")
    elif _is_power(inner) and _is_power(counts[level]):
        rest = (2 ** (system.devices - 1).bit_length() - 1) ^ ((counts[level] - 1) * inner)
        yield RankGroups(members, counts, f"AND 0x{rest:x}", where, f"{name}-alone")
    else:
        busy = tuple(1 if i < level else count for i, count in enumerate(counts))
        description = f"{where}, in one {system.hierarchy.names[level - 1]}"
        yield RankGroups(members, busy, f"MOD {inner}", description, f"{name}-alone")


def _groups_inside(system: System, level: int) -> Iterator[RankGroups]:
    """Yields groups of all ranks in one child of the next outer level, or of all ranks."""
    counts, names = system.hierarchy.cardinalities, system.hierarchy.names
    if not any(count > 1 for count in counts[level + 1 :]):
        return
    whole = prod(counts[level:])
    members = tuple(1 if i < level else count for i, count in enumerate(counts))
    if whole == system.devices:
        yield RankGroups(members, counts, "", "all ranks together", "all")
        return
    where = f"all ranks of one {names[level - 1]}, each by itself"
    yield RankGroups(members, counts, f"DIV {whole}", where, f"inside-{names[level - 1]}")


def _experiments_on(system: System, groups: RankGroups) -> Iterator[Experiment]:
    """Yields the collectives to run on some groups, the most informative first."""
    names = system.hierarchy.names
    spans = [level for level, m in enumerate(groups.members) if m > 1]
    links = [system.links[level] for level in spans]
    known = protocols(links)
    crossed = " and ".join(names[level] for level in spans)
    single = len(spans) == 1
    bandwidth = f"bandwidth of {crossed}"
    if not single:
        bandwidth = f"how {crossed} share the way: through, ports"

    def test(
        goal: Goal, *tells: str, algorithm: str | None = None, protocol: Protocol | None = None
    ) -> Experiment:
        return _make_experiment(system, groups, (goal, algorithm), protocol, tells)

    simple = Protocol.SIMPLE
    yield test(Goal.ALL_REDUCE, bandwidth, f"latency of {crossed}", algorithm=RING, protocol=simple)
    for protocol in known[1:] if single else ():
        latency = f"{protocol.value}_latency of {crossed}"
        yield test(Goal.ALL_REDUCE, latency, algorithm=RING, protocol=protocol)
    yield test(Goal.ALL_GATHER, f"{bandwidth}, by another way")
    if not single:
        if has_algorithm(Collective.ALL_REDUCE, Algorithm.TREE, links):
            trees = f"trees over {crossed}"
            yield test(Goal.ALL_REDUCE, trees, algorithm=TREE, protocol=simple)
        yield test(Goal.REDUCE_SCATTER, "a check of the rings")
        yield test(Goal.ALL_TO_ALL, f"exchanges over {crossed}")
    if all(link.reduces for link in links) and Ranks(system, groups.members).multicasts:
        yield test(Goal.ALL_REDUCE, f"what switches of {crossed} reduce", algorithm=NVLS)
    yield test(Goal.ALL_REDUCE, "what the runtime chooses")


def _make_experiment(
    system: System,
    groups: RankGroups,
    what: tuple[Goal, str | None],
    protocol: Protocol | None,
    tells: tuple[str, ...],
) -> Experiment:
    goal, algorithm = what
    forced = protocol.value if protocol else None
    name = "-".join(part for part in (groups.name, goal.value, algorithm, forced) if part)
    largest = LARGEST_LL_BYTES if protocol is Protocol.LL else LARGEST_BYTES
    measurement = Measurement(goal.value, groups.members, groups.busy, (), algorithm, forced)
    predictor = Predictor(system, measurement)
    steps = range((largest // SMALLEST_BYTES).bit_length())
    once = sum(predictor.at(SMALLEST_BYTES << step).seconds for step in steps)
    both_places = 2
    seconds = START_SECONDS + both_places * (nccl_tests.WARM_UP + nccl_tests.REPEATS) * once
    return Experiment(
        name, goal, groups, algorithm, protocol, SMALLEST_BYTES, largest, tells, seconds
    )


@dataclass(frozen=True)
class LaunchLines:
    """The commands that start one experiment, with Open MPI or Slurm."""

    mpirun: str
    srun: str


def launch_lines(system: System, experiment: Experiment) -> LaunchLines:
    """Returns the command lines, with one rank per device; ``$TESTS`` is a suite's build folder.

    If no level of the system is called node or host, the launcher distributes the ranks.
    """
    busy, level = experiment.groups.busy, find_host_level(system)
    ranks = prod(busy)
    hosts = prod(busy[: level + 1]) if level is not None else 0
    environment = experiment.environment
    test = f"$TESTS/{experiment.program} {experiment.arguments}"
    return LaunchLines(
        nccl_tests.mpirun_command(ranks, environment, test, hosts),
        nccl_tests.srun_command(ranks, environment, test, hosts),
    )


def log_command(command: str, experiment: Experiment) -> str:
    """Returns the command, with its notes and output written to the experiment's log file."""
    echoed = "; ".join(f"echo '{note}'" for note in experiment.notes)
    return f"({echoed}; {command}) > {experiment.file}"


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def script(
    system: System, found: Sequence[Experiment], launcher: str = "mpirun", spec: str = ""
) -> str:
    """Returns all experiments as a shell script whose comments say what each determines.

    ``spec`` is the argument that loads the system, for commands that read the logs.
    """
    total, name = (
        describe_total(experiment.seconds for experiment in found),
        quote(spec or system.name),
    )
    rows = [
        f"# {len(found)} tests for {system.name}, {system.hierarchy}: {total}",
        "# TESTS is the build folder of nccl-tests, or of rccl-tests: same names, same flags.",
        f"# {LOOK_HEADING}: collsynth doctor {name} *.txt",
        f"# {FIT_HEADING}, if nothing falls short: collsynth calibrate {name} *.txt -o my.toml",
        "TESTS=${TESTS:-./build}",
    ]
    for number, experiment in enumerate(found, start=1):
        lines = launch_lines(system, experiment)
        what = f"{experiment.goal.value}, {experiment.groups.where}"
        rows += ["", f"# {number}. {what}; about {experiment.seconds:.0f} s"]
        rows.append(f"#    tells: {'; '.join(experiment.tells)}")
        rows.append(log_command(lines.srun if launcher == "srun" else lines.mpirun, experiment))
    return "\n".join(rows) + "\n"
