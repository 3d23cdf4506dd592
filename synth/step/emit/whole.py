"""Primitives that no rule cuts, so that every device computes them whole.

Decompositions occur only in steps with ``replicated=true``. JAX and PyTorch call the same LAPACK
routines for them, so signs agree on a CPU. Random numbers are here for JAX alone: those of PyTorch
are functions of the written file (``torch/random.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synth.step.emit.language import PrimitiveCall, Writer
from synth.step.factors.parameters import read_number


def _check(call: PrimitiveCall, **only: object) -> None:
    """Raises InputError if a parameter has another value than the one that can be written."""
    for name, value in only.items():
        if call.operation.parameter.get(name, value) != value:
            raise call.refused(f"with {name}={call.spell(name)}")


def _jax_svd(call: PrimitiveCall) -> str:
    _check(call, subset_by_index=None)
    arguments = f"{call.operands[0]}, full_matrices={call.spell('full_matrices')}"
    if not read_number(call.operation, "compute_uv"):
        return f"[lax.linalg.svd({arguments}, compute_uv=False)]"
    return f"(lambda u, s, v: (s, u, v))(*lax.linalg.svd({arguments}))"


def _jax_eigh(call: PrimitiveCall) -> str:
    _check(call, subset_by_index=None)
    names = ("lower", "sort_eigenvalues")
    arguments = ", ".join(f"{name}={call.spell(name)}" for name in names)
    return f"lax.linalg.eigh({call.operands[0]}, symmetrize_input=False, {arguments})"


def _map_elements(call: PrimitiveCall, element: str, function: Callable[[str], str]) -> str:
    """Applies ``function`` to every element of the operand: those of ``jax.random`` take one key.

    ``element`` names the parameter of the lambda expression that ``vmap`` maps.
    """
    operand, rank = call.operands[0], len(call.shape())
    if not rank:
        return function(operand)
    return f"{'jax.vmap(' * rank}lambda {element}: {function(element)}{')' * rank}({operand})"


def _random_bits(call: PrimitiveCall) -> str:
    more = f"{call.spell('shape')}, jnp.uint{call.spell('bit_width')}"
    return _map_elements(call, "key", lambda key: f"jax.random.bits({key}, {more})")


def _random_split(call: PrimitiveCall) -> str:
    shape = call.spell("shape")
    return _map_elements(call, "key", lambda key: f"jax.random.split({key}, {shape})")


def _random_fold_in(call: PrimitiveCall) -> str:
    function = "jax.random.fold_in"
    if call.made.shape:
        function = f"jnp.vectorize({function})"
    return f"{function}({call.operands[0]}, {call.operands[1]})"


def _random_seed(call: PrimitiveCall) -> str:
    kind = _kind(call)
    return _map_elements(call, "seed", lambda seed: f"jax.random.key({seed}{kind})")


def _kind(call: PrimitiveCall) -> str:
    """The keyword argument that selects a key's generator, empty for JAX's default."""
    kind = str(call.operation.parameter.get("impl", "fry"))
    if kind not in _KINDS:
        raise call.refused(f"of keys of kind {kind}")
    return _KINDS[kind] and f', impl="{_KINDS[kind]}"'


_KINDS = {"fry": "", "rbg": "rbg", "urbg": "unsafe_rbg"}

JAX_RANDOM: Mapping[str, Writer] = {
    "random_bits": _random_bits,
    "random_unwrap": "jax.random.key_data({0})",
    "random_wrap": lambda call: f"jax.random.wrap_key_data({call.operands[0]}{_kind(call)})",
    "random_seed": _random_seed,
    "random_split": _random_split,
    "random_fold_in": _random_fold_in,
}


JAX_WHOLE: Mapping[str, Writer] = {
    "cholesky": "lax.linalg.cholesky({0}, symmetrize_input=False)",
    "triangular_solve": (
        "lax.linalg.triangular_solve({0}, {1}, left_side={left_side}, lower={lower},"
        " transpose_a={transpose_a}, conjugate_a={conjugate_a}, unit_diagonal={unit_diagonal})"
    ),
    "lu": "lax.linalg.lu({0})",
    "qr": "lax.linalg.qr({0}, full_matrices={full_matrices}, pivoting={pivoting})",
    "eigh": _jax_eigh,
    "svd": _jax_svd,
    "reduce_xor": "lax.reduce_xor({0}, {axes})",
    "clz": "lax.clz({0})",
}


def _torch_triangular_solve(call: PrimitiveCall) -> str:
    matrix, right = call.operands
    transposed = bool(read_number(call.operation, "transpose_a"))
    upper = bool(read_number(call.operation, "lower")) == transposed
    arguments = f"upper={upper}, left={call.spell('left_side')}"
    arguments += f", unitriangular={call.spell('unit_diagonal')}"
    matrix += ".mT" if transposed else ""
    return f"torch.linalg.solve_triangular({matrix}, {right}, {arguments})"


def _torch_qr(call: PrimitiveCall) -> str:
    _check(call, pivoting=False)
    mode = "complete" if read_number(call.operation, "full_matrices") else "reduced"
    return f'torch.linalg.qr({call.operands[0]}, mode="{mode}")'


def _torch_eigh(call: PrimitiveCall) -> str:
    _check(call, subset_by_index=None)
    half = "L" if read_number(call.operation, "lower") else "U"
    return f'torch.linalg.eigh({call.operands[0]}, UPLO="{half}")[::-1]'


def _torch_svd(call: PrimitiveCall) -> str:
    _check(call, subset_by_index=None)
    if not read_number(call.operation, "compute_uv"):
        return f"[torch.linalg.svdvals({call.operands[0]})]"
    arguments = f"{call.operands[0]}, full_matrices={call.spell('full_matrices')}"
    return f"(lambda u, s, v: (s, u, v))(*torch.linalg.svd({arguments}))"


TORCH_WHOLE: Mapping[str, Writer] = {
    "cholesky": "torch.linalg.cholesky({0})",
    "triangular_solve": _torch_triangular_solve,
    "lu": "lu_factors({0})",
    "qr": _torch_qr,
    "eigh": _torch_eigh,
    "svd": _torch_svd,
    "reduce_xor": 'reduce_bits({0}, {axes}, "xor")',
    "clz": lambda call: f"leading_zeros({call.operands[0]}, {call.bits})",
}
