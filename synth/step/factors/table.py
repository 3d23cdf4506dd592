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
    problem = f"no factors are known of the primitive {primitive!r}"
    if row is None and operation.body is not None:
        problem, hint = f"{primitive} repeats a body", "cut its operations"
    elif row is None:
        known = [name for name in PRIMITIVES if name not in REPLICATED_ONLY]
        hint = f"{suggest_nearest(primitive, known)}; {_REPLICATED_HINT}"
    elif row.rule is None:
        hint = f"for every device to do it whole, write {REPLICATED}=true behind its operands"
    else:
        problem = f"{primitive} has {REPLICATED}=, and has rules to be cut by"
        hint = f"leave that out, and a plan may replicate it; {_REPLICATED_HINT}"
    raise InputError(problem, where=operation.line, hint=hint)


_REPLICATED_HINT = (
    f"{REPLICATED}=true is said of {', '.join(sorted(REPLICATED_ONLY))},"
    " which runtimes compute whole"
)
