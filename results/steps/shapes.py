"""A transformer and a plan that somebody trained it by, as published tables state them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class Shape:
    """A decoder. ``gated``: three matrices in the feed-forward part, not two. ``heads`` of any
    width hold ``hidden`` together; keys and values have ``kv_heads`` of these. ``flash``: scores of
    attention never go to memory.
    """

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int
    gated: bool = True
    kv_heads: int = 0
    flash: bool = True
    dtype: str = "bf16"

    @property
    def layer_parameters(self) -> int:
        """Weights of the matrices of a layer."""
        keys = (self.kv_heads or self.heads) * (self.hidden // self.heads)
        attention = 2 * self.hidden * self.hidden + 2 * self.hidden * keys
        return attention + (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def head_parameters(self) -> int:
        return self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """As they are multiplied by: the embedding is a look-up."""
        return self.layers * self.layer_parameters + self.head_parameters

    def flops_per_token(self) -> float:
        """Of the model, forward and backward, with all of attention's scores (6 N + 12 L h s)."""
        return 6.0 * self.parameters + 12.0 * self.layers * self.hidden * self.sequence


@dataclass(frozen=True)
class Plan:
    """How it was cut: replicas, parts of tensors, stages; ``micros`` microbatches of ``micro``.

    ``sharded``: what replicas share of 0 nothing, 1 moments, 3 all (ZeRO). ``spread``: what is not
    multiplied is cut over the parts of tensors, too (sequence parallelism). ``again``: the share of
    the forward pass that is done once more. ``chunks``: stages a device holds (interleaved).
    """

    data: int
    tensor: int
    pipe: int
    micro: int
    micros: int
    sharded: int = 0
    spread: bool = True
    again: float = 0.0
    chunks: int = 1

    @property
    def devices(self) -> int:
        return self.data * self.tensor * self.pipe

    @property
    def sequences(self) -> int:
        return self.data * self.micro * self.micros


def stages(shape: Shape, plan: Plan) -> list[tuple[int, bool]]:
    """How many layers each stage has, and whether it has the head (the last matrix).

    Blocks in their order, each to the stage whose share of all parameters it does not exceed: a
    large vocabulary is a stage by itself. After nanotron's ``build_model``, whose text gives each
    stage the block that exceeds its share, too; runs without parts of tensors take what they take
    without it (1B in 1, 2 and 4 stages: 5.4 ms a layer each).
    """
    costs = [shape.layer_parameters] * shape.layers + [shape.head_parameters]
    whole, done, stage = sum(costs), 0, 0
    found = [[0, False] for _ in range(plan.pipe)]
    for block, cost in enumerate(costs):
        done += cost
        while stage < plan.pipe - 1 and done > whole * (stage + 1) / plan.pipe:
            stage += 1
        if block < shape.layers:
            found[stage][0] += 1
        else:
            found[stage][1] = True
    return [(int(layers), bool(head)) for layers, head in found]


def stages_as_built(shape: Shape, plan: Plan) -> list[tuple[int, bool]]:
    """The same by the text of nanotron's ``build_model``: the block that exceeds a share is in it.

    What peaks of memory say of 16 stages and more (steps.memory); seconds agree with neither alone.
    """
    costs = [shape.layer_parameters] * shape.layers + [shape.head_parameters]
    whole, done, stage = sum(costs), 0, 0
    found = [[0, 0] for _ in range(plan.pipe)]
    for block, cost in enumerate(costs):
        found[stage][block == shape.layers] += 1
        done += cost
        if done > whole * (stage + 1) / plan.pipe and stage < plan.pipe - 1:
            stage += 1
    return [(layers, bool(head)) for layers, head in found]


def even_stages(shape: Shape, plan: Plan) -> list[tuple[int, bool]]:
    """As many layers in each stage, the head in the last: Megatron's."""
    each = ceil(shape.layers / plan.pipe)
    left = shape.layers
    found = []
    for stage in range(plan.pipe):
        layers = min(each, left)
        left -= layers
        found.append((layers, stage == plan.pipe - 1))
    return found
