"""Elementwise arithmetic: a row for each primitive."""

from __future__ import annotations

from synth.primitives.calls import jax, torch, torch_random
from synth.primitives.calls.call import Writer
from synth.primitives.primitive import Primitive, WorkKind
from synth.primitives.rules.partials import (
    ADDITION_RULES,
    LINEAR_RULES,
    MAX,
    MIN,
    MONOTONE_RULES,
    ORDERED,
    PRODUCT_RULES,
    PartialRule,
    divide_rows,
    extreme_rule,
    mirror_rule,
    odd_power_rows,
    select_rows,
    shift_rule,
    sums_rule,
    through_rule,
)
from synth.primitives.rules.plain import elementwise

LAX = "lax.{primitive}({all})"
TORCH = "torch.{primitive}({all})"


def arithmetic(
    name: str,
    jax: Writer = LAX,
    torch: Writer = TORCH,
    partials: tuple[PartialRule, ...] = (),
    *,
    overflows: bool = False,
) -> Primitive:
    """Returns the row of an elementwise primitive, by default called by its name."""
    kind = WorkKind.ARITHMETIC
    return Primitive(name, elementwise, jax, torch, kind, partials, overflows=overflows)


def infix(
    name: str, sign: str, partials: tuple[PartialRule, ...] = (), *, overflows: bool = False
) -> Primitive:
    """Returns the row of a primitive that is an operator in Python."""
    text = f"{{p0}} {sign} {{p1}}"
    return arithmetic(name, text, text, partials, overflows=overflows)


SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SIGNS |= {"and": "&", "or": "|", "xor": "^"}
TOTAL_ORDERS = {"eq_to": "==", "le_to": "<=", "lt_to": "<"}
TORCH_NAMES = {
    "bessel_i0e": "special.i0e",
    "bessel_i1e": "special.i1e",
    "erf_inv": "erfinv",
    "igamma": "special.gammainc",
    "igammac": "special.gammaincc",
    "is_finite": "isfinite",
    "rem": "fmod",
    "zeta": "special.zeta",
}
"""Functions with a different name in PyTorch."""
SAME_NAMES = (
    "abs acos acosh asin atan2 atanh cos cosh digamma erfc lgamma log log1p nextafter pow "
    "rsqrt sin sqrt square tan"
)
MONOTONE = "asinh atan ceil erf exp exp2 expm1 floor sign sinh tanh"
"""Functions with the same name in both runtimes that preserve the order of numbers."""

ARITHMETIC_ROWS = (
    *map(arithmetic, SAME_NAMES.split()),
    *(arithmetic(name, partials=MONOTONE_RULES) for name in MONOTONE.split()),
    *(arithmetic(name, torch=f"torch.{other}({{all}})") for name, other in TORCH_NAMES.items()),
    *(infix(name, sign) for name, sign in SIGNS.items()),
    *(
        arithmetic(
            name, "lax.{primitive}_p.bind({all})", f"total_order({{0}}) {sign} total_order({{1}})"
        )
        for name, sign in TOTAL_ORDERS.items()
    ),
    infix("add", "+", ADDITION_RULES, overflows=True),
    infix("add_any", "+", ADDITION_RULES, overflows=True),
    infix("sub", "-", (sums_rule(), shift_rule(0), mirror_rule(1)), overflows=True),
    infix("mul", "*", PRODUCT_RULES, overflows=True),
    arithmetic("neg", "-{0}", "-{0}", (*LINEAR_RULES, mirror_rule(0)), overflows=True),
    arithmetic("not", "~{0}", "~{0}", overflows=True),
    arithmetic("div", LAX, torch.divide, (divide_rows,)),
    arithmetic("max", "jnp.maximum({0}, {p1})", "torch.maximum({all})", (extreme_rule(MAX),)),
    arithmetic("min", "jnp.minimum({0}, {p1})", "torch.minimum({all})", (extreme_rule(MIN),)),
    arithmetic(
        "clamp",
        LAX,
        "torch.minimum(torch.maximum({1}, {0}), {2})",
        (through_rule(ORDERED, 1),),
    ),
    arithmetic("cbrt", LAX, "torch.sign({0}) * torch.abs({0}) ** (1 / 3)", MONOTONE_RULES),
    arithmetic("logistic", LAX, "torch.sigmoid({0})", MONOTONE_RULES),
    arithmetic("round", jax.round_numbers, torch.round_numbers, MONOTONE_RULES),
    arithmetic(
        "reduce_precision",
        "lax.reduce_precision({0}, {exponent_bits}, {mantissa_bits})",
        torch.reduce_precision,
        MONOTONE_RULES,
    ),
    arithmetic(
        "integer_pow",
        "lax.integer_pow({0}, {y})",
        "{0} ** {y}",
        (odd_power_rows,),
        overflows=True,
    ),
    arithmetic("polygamma", LAX, "polygamma({all})"),
    arithmetic(
        "population_count", LAX, lambda call: f"population_count({call.operands[0]}, {call.bits})"
    ),
    arithmetic("select_n", LAX, torch.select, (select_rows,)),
    arithmetic("shift_left", LAX, "{p0} << {p1}", overflows=True),
    arithmetic("shift_right_arithmetic", LAX, "{p0} >> {p1}"),
    arithmetic("shift_right_logical", LAX, torch_random.shift_right),
)
"""The rows of elementwise arithmetic."""
