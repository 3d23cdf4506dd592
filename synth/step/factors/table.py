"""The factors of an operation, by the rule of its primitive."""

from __future__ import annotations

from grammar.tensors.operations import REPLICATED, Operation
from hierarchies import InputError
from hierarchies.errors import suggest_nearest
from synth.primitives import PRIMITIVES, REPLICATED_ONLY
from synth.primitives.factor import Factor
from synth.step.factors.forms import cache_by_form


@cache_by_form
def factors_of(operation: Operation) -> tuple[Factor, ...]:
    """Returns the factors of an operation.

    Raises InputError, with the user's line, for a primitive without a rule. If runtimes can compute
    such a primitive and the step has ``replicated=true``, it has no factors, and every device
    computes it. Other primitives refuse that parameter.
    """
    primitive, row = operation.primitive, PRIMITIVES.get(operation.primitive)
    if row is not None and row.rule is not None and REPLICATED not in operation.parameter:
        return row.rule(operation).factors(operation)
    if row is not None and row.rule is None and operation.parameter.get(REPLICATED) is True:
        return ()
    problem = f"no sharding rules for the primitive {primitive!r}"
    if row is None and operation.body is not None:
        problem, hint = f"{primitive} repeats a body", "shard its operations"
    elif row is None:
        known = [name for name in PRIMITIVES if name not in REPLICATED_ONLY]
        hint = f"{suggest_nearest(primitive, known)}; {_REPLICATED_HINT}"
    elif row.rule is None:
        hint = f"to replicate it on every device, write {REPLICATED}=true after its operands"
    else:
        problem = f"{primitive} has {REPLICATED}=, although it has sharding rules"
        hint = f"remove that: a plan may replicate it anyway; {_REPLICATED_HINT}"
    raise InputError(problem, where=operation.line, hint=hint)


_REPLICATED_HINT = (
    f"{REPLICATED}=true is for {', '.join(sorted(REPLICATED_ONLY))}, which "
    "runtimes compute on every device"
)
