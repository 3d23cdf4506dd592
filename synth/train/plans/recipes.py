"""Recipes by name: how the inputs of a step lie, from which all else follows.

Each clause of a plan's text is a place of an axis in types, no code of its own:

* ``batch over data`` cuts each batch by samples, ``tokens over seq`` by tokens (context parallel;
  keys and values are gathered where each token looks at all);
* ``weights over tensor as Megatron`` cuts heads and the wide dimension inside each half of a layer
  (Shoeybi et al. 2019); with ``tokens over tensor`` what is between the halves is cut by tokens
  (sequence parallel, Korthikanti et al. 2022);
* ``vocabulary over tensor`` cuts the embedding and the last matrix by words, ``experts over ep``
  the weights of experts by experts;
* ``zero=1`` stores the moments in parts along the batch's axis, 2 the gradients, too, and 3 the
  parameters (Rajbhandari et al. 2020).

Weights that a clause cuts are *held*: what reads them adapts. Those that ZeRO cuts are only stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grammar.tensors.operations import Step, Value
from grammar.tensors.sharding import Sharding, Split, replicated
from hierarchies import InputError
from synth.train.plans.following import Rules, follow
from synth.train.plans.plan import Plan, loop_of

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

RAGGED = ("ragged_dot_general", "ragged_dot")
OF_BATCH = ("batch", "tokens")


@dataclass(frozen=True)
class Recipe:
    """Axes and what they cut; an axis that is not said cuts nothing."""

    axes: tuple[tuple[str, int], ...]
    batch: str = ""
    megatron: str = ""
    zero: int = 0
    tokens: str = ""
    vocabulary: str = ""
    experts: str = ""

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        for one in self.clauses.values():
            if one not in names:
                raise InputError(f"no axis {one!r}", hint=f"the axes are {', '.join(names)}")
        for one, other in (("megatron", "weights"), ("tokens", "tokens")):
            if self.batch and self.batch == getattr(self, one):
                problem = f"axis {self.batch!r} cuts batch and {other}"
                raise InputError(problem, hint="use two axes")
        if self.zero not in range(4):
            raise InputError(f"zero={self.zero}", hint="ZeRO has stages 1, 2 and 3; 0 is none")
        if self.zero and not self.batch:
            raise InputError(f"zero={self.zero} and no axis cuts the batch", hint="batch over AXIS")

    @property
    def clauses(self) -> Mapping[str, str]:
        """The axis of each clause that is said."""
        return {one: axis for one in CLAUSES if (axis := getattr(self, one))}

    def __str__(self) -> str:
        said = [" ".join(f"{name}={size}" for name, size in self.axes)]
        said += [CLAUSES[one][0].format(axis) for one, axis in self.clauses.items()]
        if self.zero:
            said.append(f"zero={self.zero}")
        return "; ".join(said)


def plan_of(step: Step, recipe: Recipe) -> Plan:
    """The recipe written out for a step. Raises InputError where axes do not divide it."""
    if recipe.experts and any(one.primitive in RAGGED for one in step.graph.everywhere()):
        raise InputError(
            f"the experts of {step.name} are reached by sorted tokens",
            where="plan",
            hint="a ragged product is cut by no expert: trace the model with one-hot experts",
        )
    laid = [replicated(len(one.type.shape)) for one in step.graph.inputs]
    held: set[tuple[int, str]] = set()
    for clause, axis in recipe.clauses.items():
        cut = 0
        for at in range(len(laid)):
            place = _place(step, clause, at)
            if place is not None:
                laid[at] = laid[at].laid(axis, Split(place))
                cut += 1
                if clause not in OF_BATCH:
                    held.add((at, axis))
        if not cut:
            names = CLAUSES[clause][1]
            raise InputError(
                f"nothing of {step.name} is cut by '{CLAUSES[clause][0].format(axis)}'",
                where="plan",
                hint=f"it cuts what has a label that ends in {', '.join(names) or 'batch'}",
            )
    inputs = [_stored(step, recipe, at, one) for at, one in enumerate(laid)]
    scatters = frozenset((recipe.batch,)) if recipe.zero >= 2 else frozenset[str]()
    return follow(step, inputs, Rules(dict(recipe.axes), frozenset(held), scatters))


def _place(step: Step, clause: str, at: int) -> int | None:
    """The dimension of an input that a clause cuts."""
    rank, label = len(step.graph.inputs[at].type.shape), step.labels[at]
    if (step.roles[at] == "batch") != (clause in OF_BATCH) or not rank:
        return None
    if clause == "batch":
        return 0
    *before, half, name = ("", *label.split("/"))
    if clause == "experts" and "/".join((*before[1:], half, "router")) not in step.labels:
        return None
    places = CLAUSES[clause][1]
    place = places.get(f"{half}/{name}", places.get(name))
    return rank + place if place is not None and rank + place >= 0 else None


def _stored(step: Step, recipe: Recipe, at: int, laid: Sharding) -> Sharding:
    role = step.roles[at]
    if (recipe.zero >= 3 and role != "batch") or (recipe.zero and role == "moment"):
        first = int(_is_stacked(step, step.labels[at]))
        return _divided(step.graph.inputs[at], laid, recipe, first=first)
    return laid


def _divided(value: Value, found: Sharding, recipe: Recipe, *, first: int) -> Sharding:
    """Cut along the batch's axis in its first dimension that divides; whole if there is none."""
    parts = dict(recipe.axes)[recipe.batch]
    for at, size in enumerate(value.type.shape):
        if at >= first and not found.dimensions[at] and size % parts == 0:
            return found.laid(recipe.batch, Split(at))
    return found


def _is_stacked(step: Step, label: str) -> bool:
    """Whether layers are the first dimension: of the parameter, or of the one it is a moment of."""
    names = {
        str(one)
        for loop in step.graph.operations
        if loop.body is not None
        for divided in (loop_of(loop.parameter),)
        for one in loop.operands[divided.constants + divided.carried :]
    }
    stacks = [
        one
        for value, one in zip(step.graph.inputs, step.labels, strict=True)
        if value.name in names
    ]
    return any(label == one or label.endswith(f"/{one}") for one in stacks)
