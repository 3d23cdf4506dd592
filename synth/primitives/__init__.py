"""The table of primitives: a row for each, which says how it is sharded, called and priced.

A primitive without a row is refused, because its shardings and its cost are unknown. Adding a
primitive needs only a row: traces, sharding rules, files for JAX and PyTorch, FLOPs and estimates
all read the table.

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
