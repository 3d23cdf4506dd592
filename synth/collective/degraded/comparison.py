"""The cost of a fault: a request on a healthy machine, and with missing or slower parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hierarchies import Axis, InputError, System
from hierarchies.links import Network
from synth.collective.degraded import UnevenReport, uneven_answers
from synth.collective.degraded.ranking import check_uneven
from synth.collective.price.choices import choose_phases
from synth.collective.price.flows import FlowResult, simulate
from synth.collective.price.step_prices import Simulator
from synth.collective.ranking.advice import fix_placement
from synth.collective.ranking.answers import move_answer
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, Report, Request, Watcher
from synth.collective.semantics.lowering import lower, moves

MOST_SEGMENTS = 8
MOST_FOLLOWED = 512
"""Limits on segments and on devices for simulating a program link by link."""


@dataclass(frozen=True)
class SimulatedProgram:
    """One program simulated group by group on every link, of the healthy and the present machine.

    ``busiest`` are the busiest links of the present machine, by name, each with its share of busy
    time.
    """

    program: str
    segments: int
    healthy_seconds: float
    seconds: float
    busiest: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Cost:
    """The best answer of the healthy machine and of the present one.

    ``same_seconds`` is the time of the healthy machine's best program on the present machine, by
    the algorithms that are best there. None where devices, and so groups, are missing.
    """

    system: System
    healthy: Answer
    same_seconds: float | None
    now: Report | UnevenReport
    followed: SimulatedProgram | None

    @property
    def seconds(self) -> float:
        """The best time on the present machine."""
        return self.now.answers[0].candidate.seconds

    @property
    def complete(self) -> bool:
        return self.now.complete


def compare_machines(
    whole: System, system: System, request: Request, watcher: Watcher | None = None
) -> Cost:
    """Answers a request on a whole machine and on its remaining devices and links.

    With devices missing, the request must have one axis; its size becomes the number of remaining
    devices. With axes left over, both machines use the same fixed placement. If the simplest
    programs would suggest that the fault speeds something up, by less than prices resolve, the
    cheapest programs of both machines are compared instead. Raises InputError where nothing is
    missing or slower, and for a request that does not fit.
    """
    watcher = watcher or Watcher()
    cost = _compare_machines(whole, system, request, watcher)
    healthy_seconds = cost.healthy.candidate.seconds
    faster = cost.seconds < healthy_seconds or cost.seconds > (cost.same_seconds or cost.seconds)
    if faster and not request.exact and cost.complete:
        return _compare_machines(whole, system, replace(request, exact=True), watcher)
    return cost


def fit_request(
    whole: System, system: System, request: Request
) -> tuple[Request, tuple[Axis, ...]]:
    """The whole machine's request on the fixed placement, and the other machine's axes.

    Raises InputError as ``compare_machines``; nothing is searched.
    """
    if not system.faults and system.devices == whole.devices:
        raise InputError("nothing is missing or slower", hint="say what: --without or --slow")
    request = fix_placement(whole, replace(request, k=1))
    left = system.devices - len(system.missing)
    axes = _shrink_axes(request.axes, left) if left != whole.devices else request.axes
    if system.missing:
        check_uneven(request)
    return request, axes


def _compare_machines(whole: System, system: System, request: Request, watcher: Watcher) -> Cost:
    request, axes = fit_request(whole, system, request)
    healthy = answers(whole, request, watcher).answers[0]
    if system.missing:
        uneven = uneven_answers(system, replace(request, axes=axes), watcher)
        return Cost(system, healthy, None, uneven, None)
    now = answers(system, replace(request, axes=axes), watcher)
    if axes != request.axes:
        return Cost(system, healthy, None, now, None)
    simulator = Simulator(system, request.choice)
    healthy, best = _keep_better_answers(Simulator(whole, request.choice), simulator, healthy, now)
    now = replace(now, answers=(best,))
    same = move_answer(simulator, healthy).candidate.seconds
    return Cost(system, healthy, same, now, _simulate_program(whole, simulator, healthy))


def _shrink_axes(axes: Sequence[Axis], devices: int) -> tuple[Axis, ...]:
    if len(axes) != 1:
        raise InputError(
            f"{len(axes)} axes on a machine of which {devices} devices are left",
            hint="one axis, which then gets as many; else ask 'top' with sizes that fit",
        )
    return (replace(axes[0], size=devices),)


def _keep_better_answers(
    healthy: Simulator, slower: Simulator, before: Answer, now: Report
) -> tuple[Answer, Answer]:
    """The better of two answers on each machine: a search may miss what the other search found.

    Stripes are searched, not proved best, and with fair shares of links a faster link may end
    later. A healthy machine can execute any program of a slower machine, at that pace, so its
    answer is never reported as the slower of the two.
    """
    best = now.answers[0]
    best = min(best, move_answer(slower, before), key=_ticks)
    before = min(before, move_answer(healthy, best), key=_ticks)
    if before.candidate.ticks > best.candidate.ticks:
        # Fair shares of links can end later on faster links: show the slower machine's program and
        # seconds.
        paced = replace(best.candidate, reduction=before.candidate.reduction)
        before = replace(before, candidate=paced, stripes=best.stripes, limited_by=best.limited_by)
    return before, best


def _ticks(answer: Answer) -> int:
    return answer.candidate.ticks


def _simulate_program(whole: System, simulator: Simulator, best: Answer) -> SimulatedProgram | None:
    """Simulates the largest stripe's program for the whole payload, in few segments.

    Each machine uses the algorithms that are best on it. None for very large machines.
    """
    if whole.devices > MOST_FOLLOWED:
        return None
    part, reduction = best.candidate.parts[0], best.candidate.reduction
    segments = min(part.segments, MOST_SEGMENTS)
    schedule = lower(part.derivation, reduction, best.payload_bytes, segments)
    size = best.payload_bytes / segments

    def run(on: Simulator) -> FlowResult:
        prices = choose_phases(on, moves(part.derivation), reduction, size, segments)
        return simulate(schedule, prices, Network.of(on.system))

    healthy, present = run(Simulator(whole, simulator.choice)), run(simulator)
    busiest = present.busiest(5) if schedule.phases else ()
    return SimulatedProgram(str(part.program), segments, healthy.seconds, present.seconds, busiest)
