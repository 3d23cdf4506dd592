"""Words for the primitives that no rule cuts: every device computes them whole, if a step asks.

Of decompositions JAX and PyTorch call the same routines of LAPACK, so signs agree on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from synth.train.emit.language import Call, Writer
from synth.train.factors.parameters import number


def _check(call: Call, **only: object) -> None:
    """Raise InputError where a parameter has another value than the one that can be written."""
    for name, value in only.items():
        if call.operation.parameter.get(name, value) != value:
            raise call.refused(f"with {name}={call.told(name)}")


def _jax_svd(call: Call) -> str:
    _check(call, subset_by_index=None)
    told = f"{call.operands[0]}, full_matrices={call.told('full_matrices')}"
    if not number(call.operation, "compute_uv"):
        return f"[lax.linalg.svd({told}, compute_uv=False)]"
    return f"(lambda u, s, v: (s, u, v))(*lax.linalg.svd({told}))"


def _jax_eigh(call: Call) -> str:
    _check(call, subset_by_index=None)
    names = ("lower", "sort_eigenvalues")
    told = ", ".join(f"{name}={call.told(name)}" for name in names)
    return f"lax.linalg.eigh({call.operands[0]}, symmetrize_input=False, {told})"


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


def _torch_triangular_solve(call: Call) -> str:
    matrix, right = call.operands
    turned = bool(number(call.operation, "transpose_a"))
    upper = bool(number(call.operation, "lower")) == turned
    told = f"upper={upper}, left={call.told('left_side')}"
    told += f", unitriangular={call.told('unit_diagonal')}"
    return f"torch.linalg.solve_triangular({matrix}{'.mT' if turned else ''}, {right}, {told})"


def _torch_qr(call: Call) -> str:
    _check(call, pivoting=False)
    mode = "complete" if number(call.operation, "full_matrices") else "reduced"
    return f'torch.linalg.qr({call.operands[0]}, mode="{mode}")'


def _torch_eigh(call: Call) -> str:
    _check(call, subset_by_index=None)
    half = "L" if number(call.operation, "lower") else "U"
    return f'torch.linalg.eigh({call.operands[0]}, UPLO="{half}")[::-1]'


def _torch_svd(call: Call) -> str:
    _check(call, subset_by_index=None)
    if not number(call.operation, "compute_uv"):
        return f"[torch.linalg.svdvals({call.operands[0]})]"
    told = f"{call.operands[0]}, full_matrices={call.told('full_matrices')}"
    return f"(lambda u, s, v: (s, u, v))(*torch.linalg.svd({told}))"


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
