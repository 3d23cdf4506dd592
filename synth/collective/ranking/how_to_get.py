"""How an answer is got from a runtime: what to set, what to run, or that nobody offers it.

A gain is worth something only over what the runtime does by itself, and only if it can be had. One
step by another algorithm is a line of the environment; several steps are a file to emit; what
neither can say is offered by no runtime, and then the answer is a limit to know, not advice. What
is expected to gain, and not told to by prices, is worth a run that decides: the default is kept
until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hierarchies.units import format_duration
from synth.collective.algorithms import nccl_tests
from synth.collective.emit.conventions import IN_ORDER, hosts_of, torchrun_command
from synth.collective.emit.source import module_name, stamp
from synth.collective.price.defaults import RuntimeDefaults
from synth.collective.price.resolution import FINEST, PriceEstimate
from synth.collective.price.steps import TICKS_PER_SECOND, InstructionPrice, total_seconds
from synth.collective.ranking.request import Answer, DefaultComparison
from synth.collective.ranking.settings import (
    explain_scope,
    nccl_function_name,
    spell_way,
    way_setting,
)
from synth.collective.verify.symbolic import Proved


class AdviceKind(Enum):
    """By what an answer is got."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Advice:
    """What to do for an answer, in words: a line of the environment, a command, or nothing."""

    by: AdviceKind
    text: str


KEEP_DEFAULT = Advice(AdviceKind.DEFAULT, "keep the default")
"""How the runtime's own choice is got: nothing is set."""
KEEP_UNTIL_MEASURED = Advice(AdviceKind.DEFAULT, "keep the default until this is measured")
"""The same where a run is worth its while."""
DECIDING_RATIO = 1 + FINEST
"""The measured speed-up from which on an answer is to be taken: what is nearer is no gain."""


ALTERNATE_RUNS = (
    "run each at least three times in turn and compare medians (of seconds and plain_seconds where "
    "a file prints them)"
)
"""How one measures: what one run tells from another may be what runs differ by."""


@dataclass(frozen=True)
class SuggestedRun:
    """A run that decides between an answer and the default, which prices do not tell apart.

    ``speedup`` over the default is what is expected, as a runtime would run it, and ``seconds`` and
    ``default_seconds`` go with it; it lies in ``between``, whatever the errors of prices are.
    ``commands``: what to run, in turn; ``advise``: how the answer is got if they decide for it.
    """

    speedup: float
    between: tuple[float, float]
    seconds: float
    default_seconds: float
    commands: tuple[str, ...]
    advice: Advice

    @property
    def said(self) -> str:
        """What is expected, in a line."""
        low, high = self.between
        return (
            f"expected to be {self.speedup:.2f} times as fast as the default ({low:.2f} to"
            f" {high:.2f} times within the prediction's uncertainty)"
        )

    @property
    def decides(self) -> str:
        """Which measured figure decides, in a line."""
        default = self.default_seconds
        return (
            f"{ALTERNATE_RUNS}; take it if it is measured to be {DECIDING_RATIO:.2f} times as "
            "fast as the "
            f"default, or more: where the default takes {format_duration(default)}, as expected, "
            "in less "
            f"than {format_duration(default / DECIDING_RATIO)}"
        )


def advise(answer: Answer) -> Advice:
    """How to get an answer; where it gains nothing that prices can tell, keep the default."""
    if answer.gains:
        return _advise_for_answer(answer)
    if find_deciding_run(answer):
        return KEEP_UNTIL_MEASURED
    if answer.estimate.surely_below(answer.baseline_estimate):
        return Advice(AdviceKind.NOTHING, f"no runtime offers this: {_explain_unavailable(answer)}")
    return KEEP_DEFAULT


def explain_kept_default(answer: Answer) -> str:
    """That the default is advised and not a program, and what the program is for then.

    Nothing where the program gains, or is one call of the runtime's own (``explain_call``).
    """
    if answer.gains or answer.plain:
        return ""
    seconds, default = answer.runtime_seconds, answer.baseline_seconds
    return default_notice(answer.against_default, seconds, default)


def default_notice(against: DefaultComparison, seconds: float, default_seconds: float) -> str:
    """What is said on top of a program's file where its row keeps the default; else nothing."""
    if against is DefaultComparison.FASTER:
        return ""
    measured = "It is for a run that measures both on your machine: take it where it is faster"
    told = {
        DefaultComparison.SAME: f"a tie within the prediction's uncertainty. {measured}.",
        DefaultComparison.SLOWER: "which is surely less. Run it only where you doubt these prices.",
        DefaultComparison.NOT_OFFERED: (
            f"as no runtime has the algorithms of its price. {measured}."
        ),
    }
    return (
        f"Keep the default rather than this: as run it takes {format_duration(seconds)}, the "
        "default "
        f"{format_duration(default_seconds)}, {told[against]}"
    )


def seconds_as_advised(answer: Answer) -> float:
    """What it takes to do as is advised: the answer as the runtime runs it where that surely gains
    and is to be had, else the runtime's own choice.
    """
    had = answer.gains and _advise_for_answer(answer).by is not AdviceKind.NOTHING
    return answer.runtime_seconds if had else answer.baseline_seconds


def find_deciding_run(answer: Answer, default: PriceEstimate | None = None) -> SuggestedRun | None:
    """The run that decides about an answer, if it is worth one: proved, and to be had.

    It must be expected to be faster by more than ``resolution.WORTH``, and not told to be by
    prices, than the runtime's choice on the same placement, or than another ``default``.
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
    """What to run: NVIDIA's tests where all devices are one group, else the file that is emitted.

    The tests have one rank a device, as ``calibrate --plan`` has it. That file times its program
    and the plain collective beside it, in the groups that there are.
    """
    hierarchy = answer.candidate.reduction.placement.hierarchy
    alone = how.by is AdviceKind.ENVIRONMENT
    line = how.text if alone else answer.called.line if answer.called else ""
    if alone and answer.candidate.reduction.replicas == 1:
        size, what = answer.payload_bytes, answer.goal.value
        whole = line.replace(f"{nccl_function_name(what)}:", "")  # it sends nothing else
        told = dict(one.split("=", 1) for one in whole.split())
        ranks, test = hierarchy.devices, nccl_tests.suite_command(what, size, size)
        for environment in ({}, told):
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
    """How to get an answer, whether it gains or not."""
    if answer.plain:
        return _advise_for_call(answer.runtime_prices[0], answer.defaults)
    return Advice(AdviceKind.FILE, "; ".join([_emit_command(answer), *_list_other_steps(answer)]))


def _emit_command(answer: Answer) -> str:
    """The command that writes its file."""
    which = f"--bytes {answer.payload_bytes}" if answer.by_size else f"--rank {answer.rank}"
    how = f"{which} --target {_target(answer)} -o {_file(answer)}"
    return f"collsynth emit --from ANSWER.json {how}"


def _file(answer: Answer) -> str:
    """What that file is called, by its program: by one name the files of two rows would be one."""
    parts = [one.part for one in answer.stripes]
    slices = [(str(one.program), one.size_bytes, one.segments) for one in parts]
    stamped = stamp(answer.candidate.reduction, answer.goal, slices)
    return f"{module_name(_target(answer), stamped)}.py"


def _needs_launch_order(answer: Answer) -> bool:
    """Whether its file, for NCCL, has collectives of several groups under way at once."""
    parts = [one.part for one in answer.stripes]
    return _target(answer) == "torch" and (len(parts) > 1 or parts[0].segments > 1)


def _target(answer: Answer) -> str:
    return "torch" if answer.defaults.runtime.told else "jax"


def environment_line(answer: Answer) -> str:
    """The line of the environment that gets one call of the runtime's own.

    Empty where the runtime takes it so by itself, or has no such way; of programs, which are files,
    too: what these calls are told differs from size to size, and stands in the file.
    """
    if not answer.plain:
        return ""
    [price], own = answer.runtime_prices, answer.defaults
    if _way(price) == _way(*own.baseline):
        return ""
    return way_setting(price.what, own.options, price.algorithm, price.protocol, own.runtime)


def explain_call(price: InstructionPrice, defaults: RuntimeDefaults) -> tuple[str, ...]:
    """How one call comes to its price, in paragraphs: what is set, or what is taken by itself.

    ``defaults`` are those of the runtime by itself, and have the call's request, bytes and groups.
    """
    own = spell_way(defaults.chosen, defaults.protocol)
    if _way(price) == _way(*defaults.baseline):
        return (f"That is what the runtime takes by itself ({own}): set nothing.",)
    took = f"{own}, {format_duration(total_seconds(defaults.baseline))}"
    how = _advise_for_call(price, defaults)
    if how.by is AdviceKind.NOTHING:
        return (f"That is not reached: {how.text}. By itself the runtime takes {took}.",)
    told = (
        f"The call alone does not reach that: by itself the runtime takes {took}. Set before the "
    )
    told += f"processes start, for this size; {explain_scope(price.what)}:"
    return (told, f"    {how.text}")


def _way(*prices: InstructionPrice) -> list[tuple[object, ...]]:
    """What is called, by which algorithm and protocol."""
    return [(price.what, price.algorithm, price.protocol) for price in prices]


def _advise_for_call(price: InstructionPrice, defaults: RuntimeDefaults) -> Advice:
    """One call by another algorithm or protocol than the runtime would choose."""
    ways, by = defaults.options, defaults.runtime
    if line := way_setting(price.what, ways, price.algorithm, price.protocol, by):
        return Advice(AdviceKind.ENVIRONMENT, line)
    how = price.algorithm.value if price.algorithm else "nothing"
    why = f"; {by.untold}" if by.untold else ""
    return Advice(AdviceKind.NOTHING, f"no runtime offers this: the plain collective by {how}{why}")


def _foreign_algorithms(answer: Answer) -> str:
    """The algorithms of a price that the runtime does not have, as ``direct and tree``."""
    if answer.runtime_seconds == answer.candidate.seconds or _explain_unsettable(answer):
        return ""
    prices = [price for stripe in answer.stripes for price in stripe.prices]
    ours, had = ({p.algorithm.value for p in some if p.algorithm}
                 for some in (prices, answer.runtime_prices))  # fmt: skip
    return " and ".join(sorted(ours - had or ours))


def _explain_unsettable(answer: Answer) -> str:
    """That the runtime has all algorithms of a price, and no variable tells it to take them."""
    called = answer.called
    return called.said[-1] if called and called.unsaid and not called.foreign else ""


def _explain_unavailable(answer: Answer) -> str:
    """Why what is surely faster than the default is no gain."""
    default = format_duration(answer.baseline_seconds)
    if untold := _explain_unsettable(answer):
        return f"the default takes {default}; {untold}"
    return (
        f"its price takes {_foreign_algorithms(answer)} algorithms; by those that runtimes have "
        "it takes "
        f"{format_duration(answer.runtime_seconds)}, and the default {default}"
    )


def _list_other_steps(answer: Answer) -> Iterator[str]:
    """What else a program takes: calls that go as priced, and algorithms that runtimes have."""
    if answer.called and answer.called.line:
        yield f"set {answer.called.line}"
    if _needs_launch_order(answer):
        yield f"set {IN_ORDER} (NCCL 2.26 or later)"
    if foreign := _foreign_algorithms(answer):
        took = format_duration(answer.runtime_seconds)
        yield f"by the runtime's own algorithms {took}, as its price takes {foreign} ones"
