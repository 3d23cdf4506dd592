"""Recipes: shardings of the inputs of a step by name, from which all other shardings follow.

Each clause of a recipe places an axis in types, and no clause needs special code:

* ``batch over data`` cuts each batch by samples, and ``batch over data and expert`` does so along
  two axes; ``tokens over seq`` cuts by tokens (context parallelism; keys and values are gathered
  for attention);
* ``weights over tensor as Megatron`` cuts heads and the wide dimension inside each half of a layer
  (Shoeybi et al. 2019); with ``tokens over tensor`` values between the halves are cut by tokens
  (sequence parallelism, Korthikanti et al. 2022);
* ``vocabulary over tensor`` cuts the embedding and the last matrix by words;
* ``experts over expert`` cuts the weights of experts by experts: if that axis also cuts the batch,
  tokens go to their experts and back by all-to-alls (Lepikhin et al. 2020);
* ``zero=1`` shards the moments over the axes of the batch and of tokens, ``zero=2`` also the
  gradients, and ``zero=3`` also the parameters (Rajbhandari et al. 2020); those of experts only
  over axes that do not cut experts. If these axes divide no dimension of a value, it is cut flat
  and padded. A parameter that is read only as a bf16 copy is a master copy, which is optimizer
  state like the moments. Whole gradients are accumulated over microbatches, and their sum is
  reduce-scattered once, as in Megatron's distributed optimizer and DeepSpeed's
  ``reduce_scatter``;
* ``gradients in bf16`` accumulates and reduces gradients in the type in which they are computed;
  by default they are cast to f32 before;
* ``stages of 7, 14 times 8, 7 layers`` gives the number of layers of each stage, first to last; by
  default all have the same number (Llama 3 405B has one layer less on its first and last stage,
  Meta 2024).

Weights that a clause cuts are *held*: values that read them adapt. Weights that ZeRO cuts are not.
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
"""The dimension of each weight that is cut, counted from the last, by the end of its label.

The last four are for grouped-query attention, as in Llama: the groups are cut.
"""

VOCABULARY: Mapping[str, int] = {"embedding": -2, "last": -1}
TOKENS: Mapping[str, int] = dict.fromkeys(("tokens", "targets", "sentences", "masked"), -1)
EXPERTS: Mapping[str, int] = {"mlp/gate": -3, "mlp/up": -3, "mlp/down": -3}
"""Applies only to layers that also have a router."""

CLAUSES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "batch": ("batch over {}", {}),
    "tokens": ("tokens over {}", TOKENS),
    "megatron": ("weights over {} as Megatron", MEGATRON),
    "vocabulary": ("vocabulary over {}", VOCABULARY),
    "experts": ("experts over {}", EXPERTS),
}
"""The text of each clause, and the dimension that it cuts by the end of a label; ``batch`` cuts
samples."""

AND = " and "
"""Separator of the axes of one clause, major first."""

BATCH_CLAUSES = ("batch", "tokens")

CHUNKED_SCHEDULES = tuple(name for name in SCHEDULES if name not in (*ONE_STAGE, *V_SHAPED))
"""The schedules with a free number of stages per rank."""


def spell_sharding(sharding: Sharding) -> str:
    """Spells a sharding: ``[data,-,(seq,tensor)]`` has the axes of each dimension, major to minor.

    ``[-,-]{flat:data}`` if the value is cut flat. Partial sums are left out.
    """
    flat = replace(sharding, partial=()).spelled_rest
    return f"[{','.join(map(_axes, sharding.dimensions))}]{flat}"


def _axes(axes: tuple[str, ...]) -> str:
    return "-" if not axes else axes[0] if len(axes) == 1 else f"({','.join(axes)})"


def share_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Divides layers evenly over stages; the outer stages, which have other work, get one less.

    >>> share_layers(61, 16)
    (3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3)
    """
    least, extra = divmod(layers, stages)
    first = (stages - extra) // 2
    return tuple(least + (first <= at < first + extra) for at in range(stages))


def spell_shares(layers: Sequence[int]) -> str:
    """Spells the layers of stages in runs: ``7, 14 times 8, 7``."""
    runs = ((size, len([*run])) for size, run in groupby(layers))
    words: Iterator[Sequence[str]] = (
        [f"{times} times {size}"] if times > 2 else [str(size)] * times for size, times in runs
    )
    return ", ".join(word for run in words for word in run)


def check_shares(layers: Sequence[int], stages: int) -> None:
    """Raises InputError unless there is a number of layers for each stage, and none is 0."""
    text = f"stages of {spell_shares(layers)} layers"
    hint = "a number for each stage, at least 1: stages of 7, 14 times 8, 7 layers"
    if 0 in layers:
        raise InputError(f"{text}: a stage without layers", where="plan", hint=hint)
    if layers and len(layers) != stages:
        problem = f"{text}: layers of {len(layers)} stages, and there are {stages}"
        raise InputError(problem, where="plan", hint=hint)


@dataclass(frozen=True)
class Recipe:
    """Axes and the clauses that say what they cut; an axis without a clause cuts nothing.

    The batch is cut by all axes of ``batch``, which are in the order of ``axes``. ``layers`` has
    the number of layers of each stage, first to last; empty if all have the same number.
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
        of_inputs = [axis for _, sharding in self.inputs for axis in sharding.axes]
        of_clauses = [axis for axes in self.clauses.values() for axis in axes]
        for axis in (*of_clauses, *(axis for _, _, axis in self.weights), *of_inputs):
            if axis not in names:
                raise InputError(f"no axis {axis!r}", hint=f"the axes are {', '.join(names)}")
        if (ordered := tuple(name for name in names if name in self.batch)) != self.batch:
            hint = f"each once, in the order of the axes: {AND.join(ordered)}"
            raise InputError(f"batch over {AND.join(self.batch)}", where="plan", hint=hint)
        if TIME in names:
            raise InputError(
                f"an axis named {TIME!r}",
                hint="write '8 microbatches': they are not devices",
            )
        self._check_order()
        for clause, content in (("megatron", "weights"), ("tokens", "tokens")):
            if (axis := getattr(self, clause)) in self.batch:
                problem = f"axis {axis!r} shards batch and {content}"
                raise InputError(problem, hint="use two axes")
        if self.zero not in range(4):
            raise InputError(f"zero={self.zero}", hint="ZeRO has stages 1, 2 and 3; 0 is none")
        if self.zero and not self.zero_axes:
            problem = f"zero={self.zero} and no axis shards the batch"
            raise InputError(problem, hint="batch over AXIS, or tokens over a separate axis")

    def _check_order(self) -> None:
        pipe = dict(self.axes).get(PIPE, 1)
        if not self.microbatches:
            raise InputError("0 microbatches", hint="at least 1")
        if not self.schedule:
            if self.layers:
                problem = f"stages of {spell_shares(self.layers)} layers without a schedule"
                hint = "pipe=4; schedule 1f1b, 8 microbatches"
                raise InputError(problem, where="plan", hint=hint)
            if pipe > 1:
                problem = f"{PIPE}={pipe} without a schedule"
                raise InputError(problem, hint="schedule 1f1b, 8 microbatches")
            return
        if PIPE not in dict(self.axes):
            problem = f"schedule {self.schedule} without stages"
            raise InputError(problem, hint=f"stages need an axis named {PIPE}: {PIPE}=4")
        if self.schedule not in SCHEDULES:
            known = ", ".join(SCHEDULES)
            raise InputError(f"schedule {self.schedule!r}", hint=f"there are {known}")
        if self.microbatches < 2:
            raise InputError("a schedule of 1 microbatch", hint="at least 2: schedule 1f1b, 8 ...")
        if self.chunks != (required := chunks_of(self.schedule, self.chunks)):
            count = "two stages" if required == 2 else "one stage"
            problem = f"schedule {self.schedule} has {count} a rank, not {self.chunks} chunks"
            raise InputError(problem, hint=f"chunks are for {' and '.join(CHUNKED_SCHEDULES)}")
        check_shares(self.layers, self.stages)

    @property
    def stages(self) -> int:
        """Number of pipeline stages."""
        return dict(self.axes).get(PIPE, 1) * self.chunks

    @property
    def clauses(self) -> Mapping[str, tuple[str, ...]]:
        """The axes of each clause that the recipe has."""
        fields = {name: getattr(self, name) for name in CLAUSES}
        return {
            name: (axes,) if isinstance(axes, str) else axes
            for name, axes in fields.items()
            if axes
        }

    @property
    def replicas(self) -> int:
        """Number of groups of devices with different samples."""
        return prod(dict(self.axes)[axis] for axis in self.batch)

    @property
    def zero_axes(self) -> tuple[str, ...]:
        """The axes over which ZeRO shards states: those of samples and tokens, in order.

        An axis of tokens that also cuts weights (sequence parallelism) is excluded: states that it
        does not cut are replicated along it, as in Megatron.
        """
        weights = {self.megatron, self.vocabulary, *(axis for _, _, axis in self.weights)}
        along = {*self.batch, *({self.tokens} - weights)}
        return tuple(name for name, _ in self.axes if name in along)

    @property
    def scatters(self) -> bool:
        """Whether sums of gradients are reduce-scattered to the devices that store the states.

        ZeRO-1 keeps gradients whole, so with one microbatch they are all-reduced. With several, a
        device needs only its part of the accumulated sum.
        """
        return self.zero >= 2 or (self.zero == 1 and self.microbatches > 1)

    def __str__(self) -> str:
        parts = [" ".join(f"{name}={size}" for name, size in self.axes)]
        parts += [CLAUSES[name][0].format(AND.join(axes)) for name, axes in self.clauses.items()]
        parts += [f"weights {label}[{place}] over {axis}" for label, place, axis in self.weights]
        parts += [f"input {label} as {spell_sharding(value)}" for label, value in self.inputs]
        if self.zero:
            parts.append(f"zero={self.zero}")
        if self.schedule:
            is_default = self.chunks == chunks_of(self.schedule)
            chunks = "" if is_default else f"{self.chunks} chunks, "
            parts.append(f"schedule {self.schedule}, {chunks}{self.microbatches} microbatches")
        elif self.microbatches > 1:
            parts.append(f"{self.microbatches} microbatches")
        if self.layers:
            parts.append(f"stages of {spell_shares(self.layers)} layers")
        if self.gradients:
            parts.append(f"gradients in {self.gradients}")
        if self.remat:
            parts.append("remat layers")
        if self.bucket_bytes:
            parts.append(f"buckets of {self.bucket_bytes / 1e6:.6g} MB")
        if self.first is CostPriority.REQUESTS:
            parts.append("fewest requests")
        return "; ".join(parts)
