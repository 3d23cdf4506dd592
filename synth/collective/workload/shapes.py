"""The shape of a transformer and its training settings, from which a job is derived."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hierarchies import InputError


class StateSharding(Enum):
    """The part of the training state that is sharded among the devices that see different data."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    FSDP = "fsdp"
    HSDP = "hsdp"


@dataclass(frozen=True)
class TransformerShape:
    """A decoder-only transformer.

    Attention has ``heads``, in ``kv_heads`` groups that share keys and values; the feed-forward
    network has ``feed_forward`` inner columns (by default 4 times ``hidden``) and a gate if
    ``gated``. ``classic`` means biases and LayerNorm, as in GPT. ``tied`` means one matrix for
    embedding and logits; ``positions`` counts learned positions. With ``experts`` every layer's
    feed-forward network is that many experts, and ``experts_per_token`` of them process a token.
    Raises InputError for inconsistent numbers.
    """

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    kv_heads: int = 0
    feed_forward: int = 0
    gated: bool = False
    classic: bool = True
    tied: bool = True
    positions: int = 0
    experts: int = 0
    experts_per_token: int = 2

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "vocabulary", "experts_per_token"):
            _check_count(name, getattr(self, name), 1)
        for name in ("kv_heads", "feed_forward", "positions", "experts"):
            _check_count(name, getattr(self, name), 0)
        for name, whole in (("hidden", self.hidden), ("kv_heads", self.kv_heads)):
            large, small = max(whole, self.heads), min(whole, self.heads)
            if small and large % small:
                hint = f"{large} is not a multiple of {small}"
                raise InputError(f"{name} is {whole} with {self.heads} heads", hint=hint)
        if 0 < self.experts < self.experts_per_token:
            problem = f"{self.experts_per_token} experts a token of {self.experts} experts"
            raise InputError(problem, hint="a token is seen by at most all experts")


@dataclass(frozen=True)
class Training:
    """How a transformer is trained.

    ``sequence`` is in tokens, ``micro_batch`` in sequences; give either ``batch``, the sequences of
    a step, or ``micro_batches``, the number that each device processes. ``recompute``: all
    activations are computed again before the backward pass. ``capacity``: the tokens that an expert
    takes, as a multiple of the even share. ``memory_GB`` is the memory of a device for parameters,
    gradients and optimizer state; ``most_bubble`` is the largest bubble as a share of working time;
    axis sizes that exceed either are not considered. Raises InputError for values out of range.
    """

    sequence: int
    micro_batch: int = 1
    batch: int | None = None
    micro_batches: int | None = None
    sharding: StateSharding = StateSharding.NONE
    sequence_parallel: bool = True
    recompute: bool = False
    capacity: float = 1.0
    parameter_bytes: int = 2
    gradient_bytes: int = 4
    activation_bytes: int = 2
    memory_GB: float | None = None  # noqa: N815 - the unit as it is written
    most_bubble: float | None = None

    def __post_init__(self) -> None:
        names = ("sequence", "micro_batch", "parameter_bytes", "gradient_bytes", "activation_bytes")
        for name in (*names, "batch", "micro_batches"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name), 1)
        if (self.batch is None) == (self.micro_batches is None):
            hint = "either the sequences of a step, or the micro-batches of a device"
            raise InputError("give one of batch and micro_batches", hint=hint)
        for share in ("capacity", "memory_GB", "most_bubble"):
            value = getattr(self, share)
            if value is not None and not 0 < value < 1e9:
                raise InputError(f"{share} is {value}", hint="a number above 0")


def _check_count(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} is {value}", hint=f"at least {least} is needed")
