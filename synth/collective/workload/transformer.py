"""Derives a job from the shape of a transformer and its training settings.

The job contains the formulas of the papers, with names, so that its file can be read and changed:

* tensor and pipeline parallelism, the number of parameters: Narayanan et al., "Efficient
  Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, arXiv 2104.04473;
* sequence parallelism and recomputation: Korthikanti et al., "Reducing Activation Recomputation in
  Large Transformer Models", 2022, arXiv 2205.05198;
* sharded optimizers, gradients and parameters: Rajbhandari et al., "ZeRO", 2020, arXiv 1910.02054;
  in replicas (HSDP): Zhao et al., "PyTorch FSDP", 2023, arXiv 2304.11277;
* mixtures of experts: Lepikhin et al., "GShard", 2020, arXiv 2006.16668.

Small amounts are left out: the gradients of norms under sequence parallelism, the loss, the norm of
the gradient, the counts of tokens that experts exchange, and the last norm's parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from grammar import Goal
from hierarchies import InputError, suggest_nearest
from synth.collective.workload.job import (
    Entry,
    JobAxis,
    NamedNumber,
    Requirement,
    UnpricedTraffic,
    Workload,
    amounts_of,
)
from synth.collective.workload.quantities import (
    Amount,
    amounts_in,
    names_in,
    parse_amount,
    parse_rule,
)
from synth.collective.workload.shapes import StateSharding, Training, TransformerShape

Given = str | int | float
STATE_BYTES = 12
"""Adam in mixed precision, per parameter: the parameter and two moments in fp32 (ZeRO)."""


_DATA_AXES: Mapping[StateSharding, tuple[str, ...]] = {
    StateSharding.NONE: ("data", "expert"),
    StateSharding.OPTIMIZER: ("data", "expert"),
    StateSharding.FSDP: ("shard",),
    StateSharding.HSDP: ("replica", "shard"),
}
"""The axes whose devices see different sequences."""


def transformer_job(
    shape: TransformerShape,
    training: Training,
    axes: Mapping[str, tuple[int, ...] | None],
    *,
    name: str = "transformer",
    title: str = "",
    sources: Sequence[str] = (),
) -> Workload:
    """The job of one training step. ``axes`` maps each axis to its possible sizes; ``None``: any.

    Axes are ``tensor``, ``pipeline``, and for the data: ``data`` (and ``expert``), ``shard`` with
    FSDP, ``replica`` and ``shard`` with HSDP. Times are those of the busiest pipeline stage, bytes
    those of its busiest device. Raises InputError for axes that do not go together.
    """
    builder = _JobBuilder(shape, training, tuple(axes))
    requires = tuple(Requirement(key, parse_rule(text)) for key, text in builder.requirements())
    entries, unpriced = tuple(builder.entries()), tuple(builder.unpriced())
    communications: tuple[Entry | UnpricedTraffic, ...] = (*entries, *unpriced)
    needed = [part for requirement in requires for part in amounts_in(requirement.rule)]
    needed += [amount for entry in communications for _, amount in amounts_of(entry)]
    return Workload(
        name,
        title,
        tuple(sources),
        tuple(JobAxis(axis, sizes) for axis, sizes in axes.items()),
        _used_numbers(
            tuple(NamedNumber(key, parse_amount(formula)) for key, formula in builder.numbers()),
            needed,
        ),
        requires,
        entries,
        unpriced,
    )


def _used_numbers(
    numbers: tuple[NamedNumber, ...], needed: Iterable[Amount]
) -> tuple[NamedNumber, ...]:
    """The numbers that the amounts refer to, directly or through other numbers."""
    names = {name for amount in needed for name in names_in(amount)}
    for number in reversed(numbers):
        if number.name in names:
            names |= set(names_in(number.amount))
    return tuple(number for number in numbers if number.name in names)


class _JobBuilder:
    """The parts of the job, as names and formulas."""

    def __init__(self, shape: TransformerShape, training: Training, axes: tuple[str, ...]) -> None:
        self._shape = shape
        self._training = training
        self._axes = axes
        self._check_axes()

    def _check_axes(self) -> None:
        sharding = self._training.sharding
        data = _DATA_AXES[sharding]
        known = (*data, "tensor", "pipeline")
        for axis in self._axes:
            if axis not in known:
                problem = f"no axis {axis!r} in a job whose sharding is {sharding.value!r}"
                raise InputError(problem, hint=suggest_nearest(axis, known))
        needed = () if data[0] == "data" else data
        for axis in needed:
            if axis not in self._axes:
                hint = f"give {axis} a size, or leave it open: {axis}=any"
                raise InputError(f"no axis {axis!r}, which {sharding.value} needs", hint=hint)
        if "expert" in self._axes and not self._shape.experts:
            raise InputError("an axis 'expert' without experts", hint="give their number")
        if self._shape.experts and needed:
            hint = "use none or optimizer"
            raise InputError(f"experts with sharding {sharding.value!r}", hint=hint)
        if self._shape.experts and "tensor" in self._axes and not self._training.sequence_parallel:
            hint = "without it every device of the tensor axis would send the same tokens"
            raise InputError("experts without sequence parallelism", hint=hint)

    def _has(self, axis: str) -> bool:
        return axis in self._axes

    def _divide(self, amount: str, *axes: str) -> str:
        """The amount divided by the sizes of these axes; axes that the job lacks are skipped."""
        return " / ".join([amount, *(axis for axis in axes if self._has(axis))])

    @property
    def _data(self) -> tuple[str, ...]:
        return tuple(a for a in _DATA_AXES[self._training.sharding] if self._has(a))

    @property
    def _sharded(self) -> bool:
        return self._training.sharding in (StateSharding.FSDP, StateSharding.HSDP)

    @property
    def _stage_layers(self) -> str:
        return self._divide("layers", "pipeline")

    @property
    def _all_but_one_layer(self) -> str:
        """The share of communication that compute hides: all layers of a stage but one."""
        return f"1 - {'pipeline / layers' if self._has('pipeline') else '1 / layers'}"

    def numbers(self) -> Iterator[tuple[str, Given]]:
        yield from self._sizes()
        yield from self._parameters()
        yield from self._activations()

    def _sizes(self) -> Iterator[tuple[str, Given]]:
        shape, training = self._shape, self._training
        yield "layers", shape.layers
        yield "hidden", shape.hidden
        yield "heads", shape.heads
        yield "kv_heads", shape.kv_heads or shape.heads
        yield "feed_forward", shape.feed_forward or 4 * shape.hidden
        yield "vocabulary", shape.vocabulary
        if shape.positions:
            yield "positions", shape.positions
        if shape.experts:
            yield "experts", shape.experts
            yield "experts_per_token", shape.experts_per_token
            yield "capacity", training.capacity
        yield "sequence", training.sequence
        yield "micro_batch", training.micro_batch
        if training.batch is not None:
            yield "batch", training.batch
            yield "micro_batches", self._divide("batch / micro_batch", *self._data)
        elif training.micro_batches is not None:
            yield "micro_batches", training.micro_batches

    def _parameters(self) -> Iterator[tuple[str, Given]]:
        shape = self._shape
        square = "(hidden * hidden + hidden)" if shape.classic else "hidden * hidden"
        yield "attention_parameters", f"(2 + 2 * kv_heads / heads) * {square}"
        matrices = 3 if shape.gated else 2
        inner = "2 * feed_forward" if shape.gated else "feed_forward"
        biases = f" + {inner} + hidden" if shape.classic else ""
        yield "network_parameters", f"{matrices} * hidden * feed_forward{biases}"
        norms = "4 * hidden" if shape.classic else "2 * hidden"
        if shape.experts:
            yield "layer_parameters", f"attention_parameters + {norms} + experts * hidden"
        else:
            yield "layer_parameters", f"attention_parameters + network_parameters + {norms}"
        positions = " + positions * hidden" if shape.positions else ""
        # A single stage has both the embedding and the logits; the busiest of several has one of
        # them.
        yield "ends", "max(1, 2 / pipeline)" if self._has("pipeline") else 2
        copies = "" if shape.tied else "ends * "
        yield "embedding_parameters", f"{copies}vocabulary * hidden{positions}"
        stage = f"({self._stage_layers} * layer_parameters + embedding_parameters)"
        yield "stage_parameters", self._divide(stage, "tensor")
        if shape.experts:
            experts = f"{self._stage_layers} * experts * network_parameters"
            yield "stage_expert_parameters", self._divide(experts, "expert", "tensor")

    def _activations(self) -> Iterator[tuple[str, Given]]:
        yield "passes", 3 if self._training.recompute else 2
        tokens = "sequence * micro_batch * hidden"
        yield "activations", f"{self._training.activation_bytes} B * {tokens}"
        if self._shape.experts:
            sent = self._divide("activations", "tensor")
            yield "dispatched", f"{sent} * experts_per_token * capacity"

    def requirements(self) -> Iterator[tuple[str, str]]:
        if self._training.batch is not None:
            yield "whole_micro_batches", "micro_batches is whole"
        if self._has("pipeline"):
            yield "whole_stages", "layers / pipeline is whole"
        if self._has("tensor"):
            yield "whole_heads", "heads / tensor is whole"
        if self._has("expert"):
            yield "whole_experts", "experts / expert is whole"
        if self._has("pipeline") and self._training.most_bubble is not None:
            yield "bubble", f"(pipeline - 1) / micro_batches <= {self._training.most_bubble!r}"
        if self._training.memory_GB is not None:
            yield "memory", f"{self._state()} <= {self._training.memory_GB!r} GB"

    def _state(self) -> str:
        """Bytes of parameters, gradients and optimizer on a device of the busiest stage."""
        training = self._training
        held = training.parameter_bytes + training.gradient_bytes
        if self._sharded:
            return f"{held + STATE_BYTES} B * stage_parameters / shard"
        if training.sharding is StateSharding.NONE:
            parts = "stage_parameters"
            parts = f"({parts} + stage_expert_parameters)" if self._shape.experts else parts
            return f"{held + STATE_BYTES} B * {parts}"
        state = self._divide(f"{STATE_BYTES} B", "data", "expert")
        dense = f"({held} B + {state}) * stage_parameters"
        if not self._shape.experts:
            return dense
        state = self._divide(f"{STATE_BYTES} B", "data")
        return f"{dense} + ({held} B + {state}) * stage_expert_parameters"

    def entries(self) -> Iterator[Entry]:
        if self._has("tensor"):
            yield from self._tensor()
        if self._has("expert"):
            times = f"2 * passes * {self._stage_layers} * micro_batches"
            yield _entry(
                "tokens to experts and back", Goal.ALL_TO_ALL, ("expert",), "dispatched", times
            )
        if self._sharded:
            yield from self._fully_sharded()
        else:
            yield from self._gradients()

    def _tensor(self) -> Iterator[Entry]:
        """All-reduces of activations; all-gathers and reduce-scatters with sequence parallelism."""
        over, layers = ("tensor",), self._stage_layers
        blocks = "passes" if self._shape.experts else "2 * passes"
        times = f"({blocks} * {layers} + ends) * micro_batches"
        if not self._training.sequence_parallel:
            yield _entry("activations summed", Goal.ALL_REDUCE, over, "activations", times)
            return
        again = f"({'' if self._shape.experts else '2 * '}{layers} + 1) * micro_batches"
        gather, scatter = Goal.ALL_GATHER, Goal.REDUCE_SCATTER
        yield _entry("activations gathered", gather, over, "activations", times)
        yield _entry("activations scattered", scatter, over, "activations", times)
        yield _entry("activations gathered again", gather, over, "activations", again, "1")
        if self._shape.experts:
            payload, times = "dispatched * tensor", f"passes * {layers} * micro_batches"
            yield _entry("experts' tokens gathered", gather, over, payload, times)
            yield _entry("experts' tokens scattered", scatter, over, payload, times)

    def _gradients(self) -> Iterator[Entry]:
        """The gradients, once per step: all-reduced; or, with a sharded optimizer,
        reduce-scattered, and the parameters all-gathered.
        """
        if self._data:
            yield from self._gradient_entries("", "stage_parameters", self._data)
        if self._shape.experts and self._has("data"):
            yield from self._gradient_entries(" of experts", "stage_expert_parameters", ("data",))

    def _gradient_entries(
        self, suffix: str, parameters: str, over: tuple[str, ...]
    ) -> Iterator[Entry]:
        gradients = f"{self._training.gradient_bytes} B * {parameters}"
        hidden = self._all_but_one_layer
        if self._training.sharding is StateSharding.NONE:
            goal = Goal.ALL_REDUCE
            yield _entry(f"gradients{suffix} summed", goal, over, gradients, "1", hidden)
            return
        goal = Goal.REDUCE_SCATTER
        yield _entry(f"gradients{suffix} scattered", goal, over, gradients, "1", hidden)
        held = f"{self._training.parameter_bytes} B * {parameters}"
        goal = Goal.ALL_GATHER
        yield _entry(f"parameters{suffix} gathered", goal, over, held, "1", hidden)

    def _fully_sharded(self) -> Iterator[Entry]:
        """Gathers each layer before its forward and backward pass and scatters its gradients.

        Embedding and logits stay gathered between the two passes. HSDP sums each shard over the
        replicas.
        """
        layers, hidden = self._stage_layers, self._all_but_one_layer
        units = (
            ("layers", "layer_parameters", "2 * ", f"{layers} * micro_batches", hidden),
            ("embedding", "embedding_parameters", "", "micro_batches", "0"),
        )
        for unit, parameters, passes, times, share in units:
            held = self._divide(f"{self._training.parameter_bytes} B * {parameters}", "tensor")
            goal, over = Goal.ALL_GATHER, ("shard",)
            name = f"parameters of {unit} gathered"
            yield _entry(name, goal, over, held, f"{passes}{times}", share)
            held = self._divide(f"{self._training.gradient_bytes} B * {parameters}", "tensor")
            goal = Goal.REDUCE_SCATTER
            yield _entry(f"gradients of {unit} scattered", goal, over, held, times, share)
            if self._has("replica"):
                goal, over, held = Goal.ALL_REDUCE, ("replica",), f"{held} / shard"
                yield _entry(f"gradients of {unit} summed", goal, over, held, times, share)

    def unpriced(self) -> Iterator[UnpricedTraffic]:
        if not self._has("pipeline"):
            return
        sliced = self._has("tensor") and self._training.sequence_parallel
        yield UnpricedTraffic(
            "activations between stages",
            ("pipeline",),
            parse_amount("activations / tensor" if sliced else "activations"),
            parse_amount("2 * micro_batches"),
            "a stage sends to the next and the previous one, which is not a collective",
        )
        if self._shape.tied:
            gradients = f"{self._training.gradient_bytes} B * vocabulary * hidden"
            yield UnpricedTraffic(
                "gradients of the embedding",
                ("pipeline",),
                parse_amount(self._divide(gradients, "tensor")),
                parse_amount(1),
                "only the first and the last stage sum theirs, not the whole axis",
            )


def _entry(
    name: str, goal: Goal, over: tuple[str, ...], payload: str, times: str, hidden: str = "0"
) -> Entry:
    return Entry(name, goal, over, parse_amount(payload), parse_amount(times), parse_amount(hidden))
