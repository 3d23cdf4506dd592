"""How an answer is got from a runtime: what to set, what to run, or that nobody offers it.

A gain is worth something only over what the runtime does by itself, and only if it can be had. One
step by another algorithm is a line of the environment; several steps are a file to emit; what
neither can say is offered by no runtime, and then the answer is a limit to know, not advice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from hierarchies.units import duration
from synth.collectives.nccl_model import SPELLINGS
from synth.collectives.protocols import Protocol
from synth.plan.request import Answer
from synth.price.defaults import ALGORITHMS, XLA
from synth.price.steps import StepPrice

_PROTOCOLS = {Protocol.SIMPLE: "Simple", Protocol.LL: "LL", Protocol.LL128: "LL128"}
"""What NCCL_PROTO calls them."""


class By(Enum):
    """By what an answer is got."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = "file"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Advice:
    """What to do for an answer, in words: a line of the environment, a command, or nothing."""

    by: By
    text: str


AS_IT_IS = Advice(By.DEFAULT, "keep the default")
"""How the runtime's own choice is got: nothing is set."""


def advice(answer: Answer) -> Advice:
    """How to get an answer; where it gains nothing that prices can tell, keep the default."""
    if not answer.gains:
        if answer.estimate.surely_below(answer.baseline_estimate):
            return Advice(By.NOTHING, f"no runtime offers this: {_unavailable(answer)}")
        return AS_IT_IS
    if answer.plain:
        return _of_one_step(answer, answer.runtime_prices[0])
    target = "jax" if XLA in answer.defaults.options else "torch"
    which = f"--bytes {answer.payload_bytes}" if answer.by_size else f"--rank {answer.rank}"
    command = f"collsynth emit --from ANSWER.json {which} --target {target}"
    return Advice(By.FILE, "; ".join([command, *_otherwise(answer)]))


def _of_one_step(answer: Answer, price: StepPrice) -> Advice:
    """One call by another algorithm or protocol than the runtime would choose."""
    names = [n for n in answer.defaults.options if ALGORITHMS.get(n) is price.algorithm]
    named = [SPELLINGS[name] for name in names if name in SPELLINGS]
    if not named or XLA in answer.defaults.options:
        how = price.algorithm.value if price.algorithm else "nothing"
        return Advice(By.NOTHING, f"no runtime offers this: the plain collective by {how}")
    line = f"NCCL_ALGO={named[0]} NCCL_PROTO={_PROTOCOLS[price.protocol]}"
    return Advice(By.ENVIRONMENT, line)


def _foreign(answer: Answer) -> str:
    """The algorithms of a price that the runtime would not take, as ``direct and tree``."""
    if answer.runtime_seconds == answer.candidate.seconds:
        return ""
    prices = [price for stripe in answer.stripes for price in stripe.prices]
    ours, had = ({p.algorithm.value for p in some if p.algorithm}
                 for some in (prices, answer.runtime_prices))  # fmt: skip
    return " and ".join(sorted(ours - had or ours))


def _unavailable(answer: Answer) -> str:
    """Why what is surely faster than the default is no gain."""
    foreign, plain = _foreign(answer), answer.baseline_seconds
    return (
        f"its price takes {foreign} algorithms; by those that runtimes have it takes "
        f"{duration(answer.runtime_seconds)}, and the default {duration(plain)}"
    )


def _otherwise(answer: Answer) -> Iterator[str]:
    """What a program takes where its price has algorithms that runtimes do not."""
    if foreign := _foreign(answer):
        took = duration(answer.runtime_seconds)
        yield f"by the runtime's own algorithms {took}, as its price takes {foreign} ones"
