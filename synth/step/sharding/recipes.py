"""Recipes by name: how the inputs of a step lie, from which all else follows.

Each clause of a plan's text is a place of an axis in types, no code of its own:

* ``batch over data`` cuts each batch by samples, as ``batch over data and expert`` does along two
  axes; ``tokens over seq`` by tokens (context parallel; keys and values are gathered where each
  token looks at all);
* ``weights over tensor as Megatron`` cuts heads and the wide dimension inside each half of a layer
  (Shoeybi et al. 2019); with ``tokens over tensor`` what is between the halves is cut by tokens
  (sequence parallel, Korthikanti et al. 2022);
* ``vocabulary over tensor`` cuts the embedding and the last matrix by words;
* ``experts over expert`` cuts the weights of experts by experts: where that axis cuts the batch,
  too, tokens go to their experts and back by all-to-alls (Lepikhin et al. 2020);
* ``zero=1`` stores the moments in parts along the axes of the batch and of tokens, 2 the gradients,
  too, and 3 the parameters (Rajbhandari et al. 2020), those of experts along what of these axes
  cuts no experts. What has no dimension that these axes divide is cut flat, and padded. A
  parameter that is read as a bf16 copy alone is a master copy, state of the optimizer as moments
  are. Whole gradients are added up over microbatches, and the sum is reduce-scattered, once, as by
  Megatron's distributed optimizer and DeepSpeed's ``reduce_scatter``;
* ``gradients in bf16`` adds up and sends gradients as they are made; without it they are cast to
  what they are added to, f32, before;
* ``stages of 7, 14 times 8, 7 layers`` says how many layers each stage has, from the first on;
  without it all have as many (Llama 3 405B left one out of its first and its last, Meta 2024).

Weights that a clause cuts are *held*: what reads them adapts. Those that ZeRO cuts are only stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from grammar.tensors.sharding import Sharding
from hierarchies import InputError
from synth.step.redistribution.paths import CostPriority
from synth.step.schedules import ONE_STAGE, SCHEDULES, V_SHAPED, chunks_of
from synth.step.sharding.plan import PIPE, TIME

MEGATRON: Mapping[str, int] = {
    **{f"attention/{name}": -2 for name in ("query", "key", "value")},
    **{f"attention/{name}_bias": -2 for name in ("query", "key", "value")},
    "attention/out": -3,
    "mlp/up": -1,
    "mlp/up_bias": -1,
    "mlp/gate": -1,
    "mlp/down": -2,
    "query": -3,
    "key": -2,
    "value": -2,
    "out": -4,
}
"""Of each weight of a layer, by the end of its label, the dimension that is cut, from the last.

The last line is for heads that come in groups which share a key, as in Llama: groups are cut.
"""

VOCABULARY: Mapping[str, int] = {"embedding": -2, "last": -1}
TOKENS: Mapping[str, int] = dict.fromkeys(("tokens", "targets", "sentences", "masked"), -1)
EXPERTS: Mapping[str, int] = {"mlp/gate": -3, "mlp/up": -3, "mlp/down": -3}
"""Where a router lies beside them."""

CLAUSES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "batch": ("batch over {}", {}),
    "tokens": ("tokens over {}", TOKENS),
    "megatron": ("weights over {} as Megatron", MEGATRON),
    "vocabulary": ("vocabulary over {}", VOCABULARY),
    "experts": ("experts over {}", EXPERTS),
}
"""How a clause is said, and what it cuts by the ends of labels; all samples if nothing is named."""

AND = " and "
"""Between the axes of one clause, major first."""

BATCH_CLAUSES = ("batch", "tokens")

CHUNKED_SCHEDULES = tuple(name for name in SCHEDULES if name not in (*ONE_STAGE, *V_SHAPED))
"""The schedules that have as many stages a rank as a recipe says."""


def spell_sharding(lies: Sharding) -> str:
    """``[data,-,(seq,tensor)]``: of each dimension the axes that cut it, major to minor.

    ``[-,-]{flat:data}`` where the value is cut flat. Partial sums are not said.
    """
    flat = replace(lies, partial=()).spelled_rest
    return f"[{','.join(map(_axes, lies.dimensions))}]{flat}"


def _axes(axes: tuple[str, ...]) -> str:
    return "-" if not axes else axes[0] if len(axes) == 1 else f"({','.join(axes)})"


def share_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Of so many layers as many for each stage, or one less on the outer ones: they do more else.

    >>> shares(61, 16)
    (3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3)
    """
    each, more = divmod(layers, stages)
    first = (stages - more) // 2
    return tuple(each + (first <= at < first + more) for at in range(stages))


def spell_shares(layers: Sequence[int]) -> str:
    """``7, 14 times 8, 7``"""
    runs = ((size, len([*some])) for size, some in groupby(layers))
    words: Iterator[Sequence[str]] = (
        [f"{times} times {size}"] if times > 2 else [str(size)] * times for size, times in runs
    )
    return ", ".join(one for some in words for one in some)


def check_shares(layers: Sequence[int], stages: int) -> None:
    """Raise InputError for layers of other stages than there are, and for a stage without any."""
    said = f"stages of {spell_shares(layers)} layers"
    hint = "a number for each stage, at least 1: stages of 7, 14 times 8, 7 layers"
    if 0 in layers:
        raise InputError(f"{said}: a stage without any", where="plan", hint=hint)
    if layers and len(layers) != stages:
        problem = f"{said}: numbers for {len(layers)}, and there are {stages} stages"
        raise InputError(problem, where="plan", hint=hint)


@dataclass(frozen=True)
class Recipe:
    """Axes and what they cut; an axis that is not said cuts nothing.

    ``batch`` are several axes, in the order of all: the batch is cut by each of them. ``layers``
    are those of each stage, the first of the model first; empty if all have as many.
    """

    axes: tuple[tuple[str, int], ...]
    batch: tuple[str, ...] = ()
    megatron: str = ""
    zero: int = 0
    tokens: str = ""
    vocabulary: str = ""
    experts: str = ""
    weights: tuple[tuple[str, int, str], ...] = ()
    inputs: tuple[tuple[str, Sharding], ...] = ()
    microbatches: int = 1
    schedule: str = ""
    chunks: int = 1
    layers: tuple[int, ...] = ()
    gradients: str = ""
    remat: bool = False
    bucket_bytes: int = 0
    first: CostPriority = CostPriority.BYTES

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes if name != PIPE]
        inside = [axis for _, lies in self.inputs for axis in lies.axes]
        said = [axis for axes in self.clauses.values() for axis in axes]
        for one in (*said, *(axis for _, _, axis in self.weights), *inside):
            if one not in names:
                raise InputError(f"no axis {one!r}", hint=f"the axes are {', '.join(names)}")
        if (ordered := tuple(name for name in names if name in self.batch)) != self.batch:
            hint = f"each once, in the order of the axes: {AND.join(ordered)}"
            raise InputError(f"batch over {AND.join(self.batch)}", where="plan", hint=hint)
        if TIME in names:
            raise InputError(
                f"an axis named {TIME!r}", hint="say '8 microbatches': it is no device"
            )
        self._check_order()
        for one, other in (("megatron", "weights"), ("tokens", "tokens")):
            if (axis := getattr(self, one)) in self.batch:
                problem = f"axis {axis!r} cuts batch and {other}"
                raise InputError(problem, hint="use two axes")
        if self.zero not in range(4):
            raise InputError(f"zero={self.zero}", hint="ZeRO has stages 1, 2 and 3; 0 is none")
        if self.zero and not self.zero_axes:
            problem = f"zero={self.zero} and no axis cuts the batch"
            raise InputError(problem, hint="batch over AXIS, or tokens over an axis of their own")

    def _check_order(self) -> None:
        pipe = dict(self.axes).get(PIPE, 1)
        if not self.microbatches:
            raise InputError("0 microbatches", hint="at least 1")
        if not self.schedule:
            if self.layers:
                said = f"stages of {spell_shares(self.layers)} layers and no schedule"
                raise InputError(said, where="plan", hint="pipe=4; schedule 1f1b, 8 microbatches")
            if pipe > 1:
                problem = f"{PIPE}={pipe} and no order of its stages"
                raise InputError(problem, hint="schedule 1f1b, 8 microbatches")
            return
        if PIPE not in dict(self.axes):
            problem = f"schedule {self.schedule} and no stages"
            raise InputError(problem, hint=f"stages are along an axis of the name {PIPE}: {PIPE}=4")
        if self.schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise InputError(f"schedule {self.schedule!r}", hint=f"there are {known}")
        if self.microbatches < 2:
            raise InputError("a schedule of 1 microbatch", hint="at least 2: schedule 1f1b, 8 ...")
        if self.chunks != (each := chunks_of(self.schedule, self.chunks)):
            count = "two stages" if each == 2 else "one stage"
            problem = f"schedule {self.schedule} has {count} a rank, not {self.chunks} chunks"
            raise InputError(problem, hint=f"chunks are for {' and '.join(CHUNKED_SCHEDULES)}")
        check_shares(self.layers, self.stages)

    @property
    def stages(self) -> int:
        """How many stages the layers are on."""
        return dict(self.axes).get(PIPE, 1) * self.chunks

    @property
    def clauses(self) -> Mapping[str, tuple[str, ...]]:
        """The axes of each clause that is said."""
        said = {one: getattr(self, one) for one in CLAUSES}
        return {
            one: (axes,) if isinstance(axes, str) else axes for one, axes in said.items() if axes
        }

    @property
    def replicas(self) -> int:
        """How many groups of devices there are with samples of their own."""
        return prod(dict(self.axes)[axis] for axis in self.batch)

    @property
    def zero_axes(self) -> tuple[str, ...]:
        """The axes that ZeRO cuts states along, in the order of all: those of samples and tokens.

        An axis of tokens that weights are cut along, too (sequence parallelism), is none of them:
        what it does not cut is replicated along it, as by Megatron.
        """
        weights = {self.megatron, self.vocabulary, *(axis for _, _, axis in self.weights)}
        along = {*self.batch, *({self.tokens} - weights)}
        return tuple(name for name, _ in self.axes if name in along)

    @property
    def scatters(self) -> bool:
        """Whether a sum of gradients is sent to where it is stored: a reduce-scatter.

        ZeRO-1 keeps gradients whole: those of one microbatch are all-reduced. Where several are
        added up, only the part of the sum that is updated here need come.
        """
        return self.zero >= 2 or (self.zero == 1 and self.microbatches > 1)

    def __str__(self) -> str:
        said = [" ".join(f"{name}={size}" for name, size in self.axes)]
        said += [CLAUSES[one][0].format(AND.join(axes)) for one, axes in self.clauses.items()]
        said += [f"weights {label}[{place}] over {axis}" for label, place, axis in self.weights]
        said += [f"input {label} as {spell_sharding(lies)}" for label, lies in self.inputs]
        if self.zero:
            said.append(f"zero={self.zero}")
        if self.schedule:
            several = self.chunks != chunks_of(self.schedule)
            chunks = f"{self.chunks} chunks, " if several else ""
            said.append(f"schedule {self.schedule}, {chunks}{self.microbatches} microbatches")
        elif self.microbatches > 1:
            said.append(f"{self.microbatches} microbatches")
        if self.layers:
            said.append(f"stages of {spell_shares(self.layers)} layers")
        if self.gradients:
            said.append(f"gradients in {self.gradients}")
        if self.remat:
            said.append("remat layers")
        if self.bucket_bytes:
            said.append(f"buckets of {self.bucket_bytes / 1e6:.6g} MB")
        if self.first is CostPriority.REQUESTS:
            said.append("fewest requests")
        return "; ".join(said)
