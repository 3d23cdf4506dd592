"""Sizes of the models of the zoo: as published, by name, or changed by flags.

The numbers are from papers and published configurations; a test checks the resulting counts of
parameters. This module does not import JAX, so names can be listed without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hierarchies import InputError


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
class Llama:
    """A decoder with fewer heads of keys than of queries.

    With ``experts`` it is Mixtral: in every layer ``chosen`` of them process each token.
    ``dropless``, 0 or 1: whether experts process all tokens that choose them, however many.
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


Sizes = Mlp | Gpt2 | Llama | Bert | ResNet | Lstm | ViT

ZOO: Mapping[str, Sizes] = {
    "mlp": Mlp(3, 1024),
    "mlp-tiny": Mlp(3, 32, features=16, classes=8),
    "gpt2-tiny": Gpt2(2, 32, 4, sequence=16, vocabulary=64),
    "gpt2-small": Gpt2(12, 768, 12),
    "gpt2-medium": Gpt2(24, 1024, 16),
    "gpt2-large": Gpt2(36, 1280, 20),
    "gpt2-xl": Gpt2(48, 1600, 25),
    "gpt3-175b": Gpt2(96, 12288, 96, sequence=2048),
    "llama3-tiny": Llama(2, 32, 4, 2, 64, sequence=16, vocabulary=64),
    "llama3-8b": Llama(32, 4096, 32, 8, 14336),
    "llama3-70b": Llama(80, 8192, 64, 8, 28672),
    "llama3-405b": Llama(126, 16384, 128, 8, 53248),
    "mixtral-tiny": Llama(2, 32, 4, 2, 64, 16, 64, 1e6, experts=4, chosen=2),
    "dropless-tiny": Llama(2, 32, 4, 2, 64, 16, 64, 1e6, experts=4, chosen=2, dropless=1),
    "mixtral-8x7b": Llama(32, 4096, 32, 8, 14336, 4096, 32000, 1e6, experts=8, chosen=2),
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


def sizes_of(name: str, changes: Mapping[str, int]) -> Sizes:
    """Returns the sizes of a model, with changes. Raises InputError for unknown or bad sizes."""
    if name not in ZOO:
        raise InputError(f"no model {name!r}", hint=f"there are: {', '.join(ZOO)}")
    sizes = ZOO[name]
    known = [field.name for field in fields(sizes) if isinstance(getattr(sizes, field.name), int)]
    for changed_field, size in changes.items():
        if changed_field not in known:
            raise InputError(f"{name} has no {changed_field}", hint=f"it has {', '.join(known)}")
        if size < (least := int(changed_field != "dropless")):
            raise InputError(f"{changed_field} is {size}", where=name, hint=f"at least {least}")
    changed: Any = dict(changes)
    return _check_sizes(name, replace(sizes, **changed))


def apart(name: str, changes: Mapping[str, int], replicas: int) -> dict[str, int]:
    """Returns the changes, with ``groups`` set to ``replicas`` for a model with unset groups.

    Each replica then normalises by its own samples, as under PyTorch's DDP, Horovod or MXNet, in
    which statistics of all samples (``groups=1``) need ``SyncBatchNorm``.
    """
    whole = replicas == 1 or "groups" in changes or not isinstance(sizes_of(name, changes), ResNet)
    return {**changes} if whole else {**changes, "groups": replicas}


def _check_sizes(name: str, sizes: Sizes) -> Sizes:
    """Raises InputError for heads that do not divide the width, and similar conflicts."""
    pairs: list[tuple[str, str]] = []
    match sizes:
        case Gpt2() | Bert() | ViT():
            pairs = [("width", "heads")]
        case Llama():
            pairs = [("width", "heads"), ("heads", "key_heads")]
        case ResNet() | Mlp() | Lstm():
            pass
    if isinstance(sizes, ViT):
        pairs.append(("image", "patch"))
    for whole, part in pairs:
        if getattr(sizes, whole) % getattr(sizes, part):
            problem = f"{part} {getattr(sizes, part)} do not divide {whole} {getattr(sizes, whole)}"
            raise InputError(problem, where=name)
    if isinstance(sizes, Llama) and sizes.chosen > sizes.experts:
        raise InputError(f"{sizes.chosen} of {sizes.experts} experts chosen", where=name)
    if isinstance(sizes, Llama) and sizes.dropless > 1:
        raise InputError(f"dropless is {sizes.dropless}", where=name, hint="0 or 1")
    return sizes
