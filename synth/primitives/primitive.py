"""The row of one primitive in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from grammar.tensors.operations import Operation
from synth.primitives.calls.call import Writer
from synth.primitives.indices import Indices
from synth.primitives.rules.partials import PartialRule

Rule = Callable[[Operation], Indices]
"""Names the indices of an operation, from which its factors follow."""


class WorkKind(Enum):
    """The kind of work of a primitive, by the word that tables print."""

    PRODUCT = "products"
    """Sums of products: nearly all of the work of a step."""
    ARITHMETIC = "elementwise"
    """One result for each element."""
    REDUCTION = "reductions"
    """Elements are combined, or compared with each other."""
    MOVEMENT = "movement"
    """Data is moved, converted, or written, without arithmetic."""
    RANDOM = "random"
    """Values computed from keys, which are never divided: always replicated."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Primitive:
    """How a primitive is sharded, called in each runtime, and priced.

    Without a ``rule`` a step may use it only with ``replicated=true``, and every device computes
    it. ``partials`` are the rules for partial operands; an operand that no rule admits is an error.
    ``count_flops`` is set if the kind of work does not determine the FLOPs.

    A view (``is_view``) renames the same bytes and takes no time. Calls with ``is_sequence`` return
    a sequence of results, even of a single result. Calls with ``overflows`` may exceed 32 bits if a
    runtime keeps 32-bit words in wider integers.
    """

    name: str
    rule: Rule | None
    jax: Writer
    torch: Writer
    kind: WorkKind
    partials: tuple[PartialRule, ...] = ()
    count_flops: Callable[[Operation], int] | None = None
    is_view: bool = False
    is_sequence: bool = False
    overflows: bool = False

    def flops(self, operation: Operation) -> int:
        """Returns the FLOPs of one operation: one for each element that is produced, or reduced."""
        if self.count_flops is not None:
            return self.count_flops(operation)
        match self.kind:
            case WorkKind.ARITHMETIC:
                return operation.results[0].type.elements
            case WorkKind.REDUCTION:
                return operation.operands[0].type.elements
        return 0
