"""How to get an answer from a runtime: what to set, what to run, or that none offers it.

A gain is measured against the runtime's default, and counts only if it is attainable. One step by
another algorithm needs an environment setting; several steps need an emitted file. A program that
neither can express is offered by no runtime: it is reported as a limit, not as advice. An expected
gain within the prices' uncertainty is worth a deciding run; the default is kept until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hierarchies.units import format_duration
from synth.collective.algorithms import nccl_tests
from synth.collective.emit.conventions import IN_ORDER, hosts_of, torchrun_command
from synth.collective.emit.source import KEEP, module_name, stamp
from synth.collective.price.defaults import RuntimeDefaults
from synth.collective.price.resolution import FINEST, PriceEstimate
from synth.collective.price.steps import (
    TICKS_PER_SECOND,
    InstructionPrice,
    total_resource_seconds,
    total_seconds,
)
from synth.collective.ranking.request import Answer, DefaultComparison
from synth.collective.ranking.settings import (
    explain_scope,
    nccl_function_name,
    spell_way,
    way_setting,
)
from synth.collective.verify.symbolic import Proved


class AdviceKind(Enum):
    """The means to get an answer."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Advice:
    """What to do for an answer, in words: an environment setting, a command, or nothing."""

    by: AdviceKind
    text: str


KEEP_DEFAULT = Advice(AdviceKind.DEFAULT, "keep the default")
"""Advice to set nothing."""
KEEP_UNTIL_MEASURED = Advice(AdviceKind.DEFAULT, "keep the default until this is measured")
"""Advice to set nothing until a deciding run, which is worthwhile."""
DECIDING_RATIO = 1 + FINEST
"""The least measured speed-up for which an answer should replace the default."""


ALTERNATE_RUNS = (
    "run each at least three times in turn and compare medians (of seconds and plain_seconds where "
    "a file prints them)"
)
"""How to measure: a difference between single runs may be mere variation."""


@dataclass(frozen=True)
class SuggestedRun:
    """A run that decides between an answer and the default, which prices cannot order.

    ``speedup`` over the default is expected as a runtime would run it, with ``seconds`` and
    ``default_seconds``; given the prices' errors it is within ``between``. ``commands`` are to be
    run alternately; ``advice`` is how to get the answer if it wins.
    """

    speedup: float
    between: tuple[float, float]
    seconds: float
    default_seconds: float
    commands: tuple[str, ...]
    advice: Advice

    @property
    def said(self) -> str:
        """The expectation, in a line."""
        low, high = self.between
        return (
            f"expected to be {self.speedup:.2f} times as fast as the default ({low:.2f} to"
            f" {high:.2f} times within the prediction's uncertainty)"
        )

    @property
    def decides(self) -> str:
        """The measured figure that decides, in a line."""
        default = self.default_seconds
        return (
            f"{ALTERNATE_RUNS}; take it if it is measured to be {DECIDING_RATIO:.2f} times as "
            f"fast as the default, or more: where the default takes {format_duration(default)}, "
            f"as expected, in less than {format_duration(default / DECIDING_RATIO)}"
        )


def advise(answer: Answer) -> Advice:
    """Returns how to get an answer, or to keep the default if no gain is sure."""
    if answer.gains:
        return _advise_for_answer(answer)
    if find_deciding_run(answer):
        return KEEP_UNTIL_MEASURED
    if answer.estimate.surely_below(answer.baseline_estimate):
        return Advice(AdviceKind.NOTHING, f"no runtime offers this: {_explain_unavailable(answer)}")
    return KEEP_DEFAULT


def explain_kept_default(answer: Answer) -> str:
    """Returns why the default is advised and what the program's file is for then.

    Empty if the program gains, or is the runtime's own choice (``explain_call``).
    """
    own = answer.plain and _way(*answer.runtime_prices) == _way(*answer.defaults.baseline)
    if answer.gains or own:
        return ""
    seconds, default = answer.runtime_seconds, answer.baseline_seconds
    return default_notice(answer.against_default, seconds, default)


def default_notice(against: DefaultComparison, seconds: float, default_seconds: float) -> str:
    """Returns the notice at the top of a program's file if the default is kept, else ""."""
    if against is DefaultComparison.FASTER:
        return ""
    measured = "It is for a run that measures both on your machine: take it where it is faster"
    reasons = {
        DefaultComparison.SAME: f"a tie within the prediction's uncertainty. {measured}.",
        DefaultComparison.SLOWER: "which is surely less. Run it only where you doubt these prices.",
        DefaultComparison.NOT_OFFERED: (
            f"as no runtime has the algorithms of its price. {measured}."
        ),
    }
    return (
        f"{KEEP} rather than this: as run it takes {format_duration(seconds)}, the "
        f"default {format_duration(default_seconds)}, {reasons[against]}"
    )


def seconds_as_advised(answer: Answer) -> float:
    """Returns the seconds of the answer as run if it surely gains and is attainable, else of the
    runtime's own choice.
    """
    return answer.runtime_seconds if _is_advised(answer) else answer.baseline_seconds


def busy_as_advised(answer: Answer) -> dict[str, float]:
    """Returns the seconds for which what ``seconds_as_advised`` times keeps each resource busy."""
    if not _is_advised(answer):
        return total_resource_seconds([(answer.defaults.baseline, 1)])
    first, *others = answer.stripes
    stripes = [(answer.runtime_prices, first.part.segments)]
    return total_resource_seconds([*stripes, *((s.prices, s.part.segments) for s in others)])


def _is_advised(answer: Answer) -> bool:
    return answer.gains and _advise_for_answer(answer).by is not AdviceKind.NOTHING


def find_deciding_run(answer: Answer, default: PriceEstimate | None = None) -> SuggestedRun | None:
    """Returns the run that decides about a proved, available answer, if it is worth one.

    It must be expected to be faster by more than ``resolution.WORTH``, though not surely, than
    the runtime's choice on the same placement or another ``default``.
    """
    default = default or answer.baseline_estimate
    ours, how = answer.runtime_estimate, _advise_for_answer(answer)
    open_ = answer.against(default) is DefaultComparison.SAME and ours.perhaps_below(default)
    if not open_ or how.by is AdviceKind.NOTHING or not isinstance(answer.verdict, Proved):
        return None
    return SuggestedRun(
        default.ticks / ours.ticks,
        ours.speedup_over(default),
        answer.runtime_seconds,
        default.ticks / TICKS_PER_SECOND,
        tuple(_runs(answer, how)),
        how,
    )


def _runs(answer: Answer, how: Advice) -> Iterator[str]:
    """Yields commands: NVIDIA's tests where all devices are one group, else the emitted file.

    The tests have one rank a device, as in ``calibrate --plan``. The file times its program and the
    plain collective, in the actual groups.
    """
    hierarchy = answer.candidate.reduction.placement.hierarchy
    alone = how.by is AdviceKind.ENVIRONMENT
    line = how.text if alone else answer.called.line if answer.called else ""
    if alone and answer.candidate.reduction.replicas == 1:
        size, what = answer.payload_bytes, answer.goal.value
        # The test calls one collective only, so the settings need not name it.
        whole = line.replace(f"{nccl_function_name(what)}:", "")
        settings = dict(setting.split("=", 1) for setting in whole.split())
        ranks, test = hierarchy.devices, nccl_tests.suite_command(what, size, size)
        for environment in ({}, settings):
            yield nccl_tests.mpirun_command(ranks, environment, test, hosts_of(hierarchy))
        return
    start = (
        torchrun_command(hierarchy, _needs_launch_order(answer))
        if _target(answer) == "torch"
        else "python"
    )
    run = f"{start} {_file(answer)} --bytes {answer.payload_bytes} --repeat 20"
    yield _emit_command(answer)
    yield run
    if line:
        yield f"{line} {run}"


def _advise_for_answer(answer: Answer) -> Advice:
    """Returns how to get an answer, whether it gains or not."""
    if answer.plain:
        return _advise_for_call(answer.runtime_prices[0], answer.defaults)
    return Advice(AdviceKind.FILE, "; ".join([_emit_command(answer), *_list_other_steps(answer)]))


def _emit_command(answer: Answer) -> str:
    """Returns the command that writes the answer's file."""
    which = f"--bytes {answer.payload_bytes}" if answer.by_size else f"--rank {answer.rank}"
    how = f"{which} --target {_target(answer)} -o {_file(answer)}"
    return f"collsynth emit --from ANSWER.json {how}"


def _file(answer: Answer) -> str:
    """Returns the file's name, which depends on the program: two rows never share a file."""
    parts = [stripe.part for stripe in answer.stripes]
    slices = [(str(part.program), part.size_bytes, part.segments) for part in parts]
    stamped = stamp(answer.candidate.reduction, answer.goal, slices)
    return f"{module_name(_target(answer), stamped)}.py"


def _needs_launch_order(answer: Answer) -> bool:
    """Whether its NCCL file has collectives of several groups in flight at once."""
    parts = [stripe.part for stripe in answer.stripes]
    return _target(answer) == "torch" and (len(parts) > 1 or parts[0].segments > 1)


def _target(answer: Answer) -> str:
    return "torch" if answer.defaults.runtime.told else "jax"


def environment_line(answer: Answer) -> str:
    """Returns the settings that select one call of the runtime's own.

    Empty if the runtime makes the call that way by itself or has no such way; also for programs,
    whose settings depend on the size and are in the file.
    """
    if not answer.plain:
        return ""
    [price], own = answer.runtime_prices, answer.defaults
    if _way(price) == _way(*own.baseline):
        return ""
    return way_setting(
        price.what, own.options, price.algorithm, price.protocol, own.runtime, own.version
    )


def explain_call(price: InstructionPrice, defaults: RuntimeDefaults) -> tuple[str, ...]:
    """Returns paragraphs on how one call gets its price: by settings, or by default.

    ``defaults`` are the runtime's own, for the call's request, bytes and groups.
    """
    own = spell_way(defaults.chosen, defaults.protocol)
    if _way(price) == _way(*defaults.baseline):
        return (f"{KEEP}: the runtime takes this by itself ({own}); set nothing.",)
    own_time = f"{own}, {format_duration(total_seconds(defaults.baseline))}"
    how = _advise_for_call(price, defaults)
    if how.by is AdviceKind.NOTHING:
        return (f"That is not reached: {how.text}. By itself the runtime takes {own_time}.",)
    heading = (
        f"The call alone does not reach that: by itself the runtime takes {own_time}. Set before "
        f"the processes start, for this size; {explain_scope(price.what, line=how.text)}:"
    )
    return (heading, f"    {how.text}")


def _way(*prices: InstructionPrice) -> list[tuple[object, ...]]:
    """Returns the collective, algorithm and protocol of each price."""
    return [(price.what, price.algorithm, price.protocol) for price in prices]


def _advise_for_call(price: InstructionPrice, defaults: RuntimeDefaults) -> Advice:
    """Returns how to get one call by another algorithm or protocol than the default."""
    ways, by = defaults.options, defaults.runtime
    way = price.algorithm, price.protocol
    if line := way_setting(price.what, ways, *way, by, defaults.version):
        return Advice(AdviceKind.ENVIRONMENT, line)
    how = price.algorithm.value if price.algorithm else "nothing"
    why = f"; {by.untold}" if by.untold else ""
    return Advice(AdviceKind.NOTHING, f"no runtime offers this: the plain collective by {how}{why}")


def _foreign_algorithms(answer: Answer) -> str:
    """Returns a price's algorithms that the runtime lacks, as ``direct and tree``."""
    if answer.runtime_seconds == answer.candidate.seconds or _explain_unsettable(answer):
        return ""
    prices = [price for stripe in answer.stripes for price in stripe.prices]
    priced, available = (
        {price.algorithm.value for price in prices if price.algorithm}
        for prices in (prices, answer.runtime_prices)
    )
    return " and ".join(sorted(priced - available or priced))


def _explain_unsettable(answer: Answer) -> str:
    """Returns why no setting selects a price's algorithms, if the runtime has them."""
    called = answer.called
    return called.said[-1] if called and called.unsaid and not called.foreign else ""


def _explain_unavailable(answer: Answer) -> str:
    """Returns why a program surely cheaper than the default is no gain."""
    default = format_duration(answer.baseline_seconds)
    if unsettable := _explain_unsettable(answer):
        return f"the default takes {default}; {unsettable}"
    return (
        f"its price takes {_foreign_algorithms(answer)} algorithms; by those that runtimes have "
        f"it takes {format_duration(answer.runtime_seconds)}, and the default {default}"
    )


def _list_other_steps(answer: Answer) -> Iterator[str]:
    """Yields what else a program needs: settings, and algorithms of the runtime."""
    if answer.called and answer.called.line:
        yield f"set {answer.called.line}"
    if _needs_launch_order(answer):
        yield f"set {IN_ORDER} (NCCL 2.26 or later)"
    if foreign := _foreign_algorithms(answer):
        own_time = format_duration(answer.runtime_seconds)
        yield f"by the runtime's own algorithms {own_time}, as its price takes {foreign} ones"
