"""Sizes of the models of the zoo: as published, by name, or changed by flags.

The numbers are from papers and published configurations; a test checks the resulting counts of
parameters. This module does not import JAX, so names can be listed without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hierarchies import InputError
from synth.step.zoo.forms import LLAMA, Form


@dataclass(frozen=True)
class Mlp:
    """A perceptron with hidden layers of one width; the last layer maps to classes."""

    layers: int
    width: int
    features: int = 784
    classes: int = 10


@dataclass(frozen=True)
class Gpt2:
    """A decoder; ``sequence`` is its longest context, and the number of tokens of a sample."""

    layers: int
    width: int
    heads: int
    sequence: int = 1024
    vocabulary: int = 50257


@dataclass(frozen=True)
class Decoder:
    """A decoder: Llama 3, and by its ``form`` most others; fewer heads of keys than of queries.

    With ``experts`` it is a mixture: in every layer ``chosen`` of them process each token.
    ``dropless``, 0 or 1: whether experts process all tokens that choose them, however many.

    Sizes that are None by default: ``head_width`` is then ``width / heads``. ``dense_layers``
    layers without experts come before the ``layers``, with an MLP of ``dense_hidden``. The shared
    experts of a layer are one MLP of ``shared_hidden``. ``window``: tokens that a token attends to.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    hidden: int
    sequence: int = 8192
    vocabulary: int = 128256
    rope_base: float = 500000.0
    experts: int = 1
    chosen: int = 1
    dropless: int = 0
    head_width: int | None = None
    dense_layers: int | None = None
    dense_hidden: int | None = None
    shared_hidden: int | None = None
    window: int | None = None
    form: Form = LLAMA

    @property
    def head(self) -> int:
        """Elements of a head of queries and keys."""
        if self.form.latent is not None:
            return self.form.latent.head_width
        return self.head_width or self.width // self.heads

    @property
    def value_head(self) -> int:
        """Elements of a head of values."""
        return self.head if self.form.latent is None else self.form.latent.value_width

    @property
    def reach(self) -> int:
        """Tokens of a sample that a token of a windowed layer attends to; 0 if to all before it."""
        return self.window if self.window and self.window < self.sequence else 0


@dataclass(frozen=True)
class Bert:
    """An encoder, trained on masked tokens and next sentence prediction."""

    layers: int
    width: int
    heads: int
    sequence: int = 512
    vocabulary: int = 30522


@dataclass(frozen=True)
class ResNet:
    """Bottleneck blocks in stages, each with half the image size and twice the channels.

    ``groups``: the number of parts of the batch that are normalised separately: 1, or the number of
    replicas, as in data parallelism of frameworks.
    """

    blocks: tuple[int, ...]
    width: int = 64
    image: int = 224
    classes: int = 1000
    groups: int = 1


@dataclass(frozen=True)
class Lstm:
    """A language model of stacked LSTM layers."""

    layers: int
    width: int
    sequence: int = 128
    vocabulary: int = 10000


@dataclass(frozen=True)
class ViT:
    """An encoder of patches of an image, and of a class token."""

    layers: int
    width: int
    heads: int
    image: int = 224
    patch: int = 16
    classes: int = 1000


Sizes = Mlp | Gpt2 | Decoder | Bert | ResNet | Lstm | ViT

ZOO: Mapping[str, Sizes] = {
    "mlp": Mlp(3, 1024),
    "mlp-tiny": Mlp(3, 32, features=16, classes=8),
    "gpt2-tiny": Gpt2(2, 32, 4, sequence=16, vocabulary=64),
    "gpt2-small": Gpt2(12, 768, 12),
    "gpt2-medium": Gpt2(24, 1024, 16),
    "gpt2-large": Gpt2(36, 1280, 20),
    "gpt2-xl": Gpt2(48, 1600, 25),
    "gpt3-175b": Gpt2(96, 12288, 96, sequence=2048),
    "llama3-tiny": Decoder(2, 32, 4, 2, 64, sequence=16, vocabulary=64),
    "llama3-8b": Decoder(32, 4096, 32, 8, 14336),
    "llama3-70b": Decoder(80, 8192, 64, 8, 28672),
    "llama3-405b": Decoder(126, 16384, 128, 8, 53248),
    "mixtral-tiny": Decoder(2, 32, 4, 2, 64, 16, 64, 1e6, experts=4, chosen=2),
    "dropless-tiny": Decoder(2, 32, 4, 2, 64, 16, 64, 1e6, experts=4, chosen=2, dropless=1),
    "mixtral-8x7b": Decoder(32, 4096, 32, 8, 14336, 4096, 32000, 1e6, experts=8, chosen=2),
    "bert-tiny": Bert(2, 32, 4, sequence=16, vocabulary=64),
    "bert-base": Bert(12, 768, 12),
    "bert-large": Bert(24, 1024, 16),
    "resnet-tiny": ResNet((2, 1), width=4, image=32, classes=8),
    "resnet50": ResNet((3, 4, 6, 3)),
    "lstm-tiny": Lstm(2, 16, sequence=8, vocabulary=32),
    "lstm": Lstm(2, 650),
    "vit-tiny": ViT(2, 32, 4, image=16, patch=4, classes=8),
    "vit-base": ViT(12, 768, 12),
    "vit-large": ViT(24, 1024, 16),
}
"""The models by name. The models named tiny are for tests and first steps."""


@dataclass(frozen=True)
class DescribedModel:
    """A model that a user describes: the name it has in answers, and its sizes.

    ``omitted``: what its description says beside them and a traced step leaves out, in words.
    """

    name: str
    sizes: Sizes
    omitted: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


ModelSource = str | DescribedModel
"""A model of the zoo by its name, or a described model."""

MOST_DENSE = 64
"""The largest number of layers outside of the loop of layers: each is traced."""

MOST_LISTED = 10_000
"""The largest number of layers, or heads, that have a constant each."""

MAY_BE_ZERO = ("dropless", "dense_layers", "shared_hidden", "window")


def sizes_of(model: ModelSource, changes: Mapping[str, int]) -> Sizes:
    """Returns the sizes of a model, with changes. Raises InputError for unknown or bad sizes."""
    if isinstance(model, str) and model not in ZOO:
        raise InputError(f"no model {model!r}", hint=f"there are: {', '.join(ZOO)}")
    sizes = ZOO[model] if isinstance(model, str) else model.sizes
    known = [field.name for field in fields(sizes) if field.type in ("int", "int | None")]
    for changed_field, size in changes.items():
        if changed_field not in known:
            raise InputError(f"{model} has no {changed_field}", hint=f"it has {', '.join(known)}")
        if size < (least := int(changed_field not in MAY_BE_ZERO)):
            problem = f"{changed_field} is {size}"
            raise InputError(problem, where=str(model), hint=f"at least {least}")
    changed: Any = dict(changes)
    return check_sizes(str(model), replace(sizes, **changed))


def apart(model: ModelSource, changes: Mapping[str, int], replicas: int) -> dict[str, int]:
    """Returns the changes, with ``groups`` set to ``replicas`` for a model with unset groups.

    Each replica then normalises by its own samples, as under PyTorch's DDP, Horovod or MXNet, in
    which statistics of all samples (``groups=1``) need ``SyncBatchNorm``.
    """
    whole = replicas == 1 or "groups" in changes or not isinstance(sizes_of(model, changes), ResNet)
    return {**changes} if whole else {**changes, "groups": replicas}


def check_sizes(name: str, sizes: Sizes) -> Sizes:
    """Raises InputError for heads that do not divide the width, and similar conflicts."""
    pairs: list[tuple[str, str]] = []
    match sizes:
        case Gpt2() | Bert() | ViT():
            pairs = [("width", "heads")]
        case Decoder():
            whole_heads = sizes.head_width is None and sizes.form.latent is None
            pairs = [*([("width", "heads")] if whole_heads else []), ("heads", "key_heads")]
        case ResNet() | Mlp() | Lstm():
            pass
    if isinstance(sizes, ViT):
        pairs.append(("image", "patch"))
    for whole, part in pairs:
        if getattr(sizes, whole) % getattr(sizes, part):
            problem = f"{part} {getattr(sizes, part)} do not divide {whole} {getattr(sizes, whole)}"
            raise InputError(problem, where=name)
    if isinstance(sizes, Decoder):
        _check_decoder(name, sizes)
    return sizes


def _check_decoder(name: str, sizes: Decoder) -> None:
    """Raises InputError for experts, layers and heads that contradict each other."""
    if sizes.chosen > sizes.experts:
        raise InputError(f"{sizes.chosen} of {sizes.experts} experts chosen", where=name)
    if sizes.dropless > 1:
        raise InputError(f"dropless is {sizes.dropless}", where=name, hint="0 or 1")
    if sizes.dropless and sizes.form.mlp_bias:
        problem = "dropless experts with biases are not supported yet"
        raise InputError(problem, where=name, hint="dropless=0: each expert has a capacity")
    for field in ("shared_hidden", "dense_layers"):
        if getattr(sizes, field) and sizes.experts == 1:
            problem = f"{field} is {getattr(sizes, field)}, and there is one expert"
            raise InputError(problem, where=name, hint="experts=2 or more")
    limits = [("dense_layers", MOST_DENSE)]
    limits += [("layers", MOST_LISTED)] if sizes.form.full_every else []
    limits += [("heads", MOST_LISTED)] if sizes.form.positions == "alibi" else []
    for field, most in limits:
        if (getattr(sizes, field) or 0) > most:
            problem = f"{field} is {getattr(sizes, field)}"
            raise InputError(
                problem, where=name, hint=f"at most {most} that are written one by one"
            )
    if sizes.dense_layers and not sizes.dense_hidden:
        raise InputError("dense layers without a width", where=name, hint="dense_hidden=18432")
    _check_heads(name, sizes)
    _check_groups(name, sizes)


def _check_heads(name: str, sizes: Decoder) -> None:
    latent = sizes.form.latent
    if latent is not None and (sizes.head_width is not None or sizes.key_heads != sizes.heads):
        hint = "its ranks and widths are those of the description"
        field = "key_heads" if sizes.head_width is None else "head_width"
        raise InputError(f"{field} beside multi-head latent attention", where=name, hint=hint)
    rotated = int(sizes.head * sizes.form.rotary_share) if latent is None else latent.rotary_width
    if sizes.form.positions == "rotary" and rotated % 2:
        hint = "pairs of elements are rotated: an even number"
        raise InputError(f"{rotated} rotated elements of a head", where=name, hint=hint)


def _check_groups(name: str, sizes: Decoder) -> None:
    router = sizes.form.router
    groups = f"{router.chosen_groups} of {router.groups} groups"
    if sizes.experts % router.groups or router.chosen_groups > router.groups:
        raise InputError(
            f"{sizes.experts} experts, {groups} chosen",
            where=name,
            hint="groups that divide the experts",
        )
    if sizes.chosen > sizes.experts // router.groups * router.chosen_groups:
        hint = "no more than these groups have"
        raise InputError(f"{sizes.chosen} experts from {groups}", where=name, hint=hint)
