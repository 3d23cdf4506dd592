"""How large the models of the zoo are: by name as published, or changed by flags.

The numbers are those of the papers and of the published configurations; the count of parameters
that follows is a test. No JAX here, so that names can be listed where it is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from hierarchies import InputError


@dataclass(frozen=True)
class Mlp:
    """Layers of one width, the last one to classes."""

    layers: int
    width: int
    features: int = 784
    classes: int = 10


@dataclass(frozen=True)
class Gpt2:
    """A decoder; ``sequence`` tokens are its longest context, and all are trained on."""

    layers: int
    width: int
    heads: int
    sequence: int = 1024
    vocabulary: int = 50257


@dataclass(frozen=True)
class Llama:
    """A decoder with fewer heads of keys than of queries; ``experts`` of which ``chosen`` serve.

    With experts it is Mixtral: in every layer each token goes to two of eight. ``dropless``, 0 or
    1: experts take all tokens that choose them, as many as that may be.
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
    """An encoder, trained to fill in masked tokens and to tell whether two sentences follow."""

    layers: int
    width: int
    heads: int
    sequence: int = 512
    vocabulary: int = 30522


@dataclass(frozen=True)
class ResNet:
    """Bottleneck blocks in four stages, each of half the size and twice the channels.

    ``groups``: parts of the batch that are normalised each by its own samples: 1, or as many as
    there are replicas, as in data parallelism of frameworks.
    """

    blocks: tuple[int, ...]
    width: int = 64
    image: int = 224
    classes: int = 1000
    groups: int = 1


@dataclass(frozen=True)
class Lstm:
    """A language model: layers of cells, one after the other in each step of time."""

    layers: int
    width: int
    sequence: int = 128
    vocabulary: int = 10000


@dataclass(frozen=True)
class ViT:
    """An encoder of patches of an image, and one token more, which is classified."""

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
"""The models by name. Those called tiny are for tests and first steps."""


def sizes_of(name: str, changes: Mapping[str, int]) -> Sizes:
    """The sizes of a model by its name, with some of them changed. Raises InputError."""
    if name not in ZOO:
        raise InputError(f"no model {name!r}", hint=f"there are: {', '.join(ZOO)}")
    found = ZOO[name]
    has = [field.name for field in fields(found) if isinstance(getattr(found, field.name), int)]
    for one, size in changes.items():
        if one not in has:
            raise InputError(f"{name} has no {one}", hint=f"it has {', '.join(has)}")
        if size < (least := int(one != "dropless")):
            raise InputError(f"{one} is {size}", where=name, hint=f"at least {least}")
    changed: Any = dict(changes)
    return _check_sizes(name, replace(found, **changed))


def apart(name: str, changes: Mapping[str, int], replicas: int) -> dict[str, int]:
    """The changes, and as many ``groups`` as replicas where a model has them and none are said.

    So each replica's batch is normalised by its own samples, as under PyTorch's DDP, Horovod or
    MXNet, where statistics of all samples (``groups=1``) are asked for as ``SyncBatchNorm``.
    """
    whole = replicas == 1 or "groups" in changes or not isinstance(sizes_of(name, changes), ResNet)
    return {**changes} if whole else {**changes, "groups": replicas}


def _check_sizes(name: str, sizes: Sizes) -> Sizes:
    """Refuse heads that do not divide the width, and the like."""
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
