"""What is known of each primitive: a row that says how it is sharded, called and priced.

A primitive without a row is refused, as neither its shardings nor its cost are known. Adding one
needs its row alone: traces, rules of sharding, files for JAX and PyTorch, FLOPs and estimates all
read the table.

>>> from synth.primitives import PRIMITIVES
>>> row = PRIMITIVES["rsqrt"]
>>> row.kind, row.jax, row.torch
(<WorkKind.ARITHMETIC: 'elementwise'>, 'lax.{primitive}({all})', 'torch.{primitive}({all})')
"""

from synth.primitives.primitive import Primitive, WorkKind
from synth.primitives.table import (
    ARITHMETIC,
    MOVED,
    MULTIPLIED,
    PRIMITIVES,
    REPLICATED_ONLY,
    is_elementwise,
    is_view,
    kind_of,
)

__all__ = [
    "ARITHMETIC",
    "MOVED",
    "MULTIPLIED",
    "PRIMITIVES",
    "REPLICATED_ONLY",
    "Primitive",
    "WorkKind",
    "is_elementwise",
    "is_view",
    "kind_of",
]
