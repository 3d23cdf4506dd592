"""What keeps the kernels of a plan apart in a written step.

A plan that has ``fused`` groups says which operations are one kernel, and any other is one by
itself. A compiler fuses what it likes; so what a kernel makes and others read goes through what the
runtime has to keep values apart, once all of the kernel is done.
"""

from __future__ import annotations

from collections.abc import Mapping

from synth.train.plans import Done, Program
from synth.train.plans.program import Key, makes, reads


def handed_on(program: Program) -> Mapping[Key, tuple[Key, ...]]:
    """By the first that a kernel's last instruction makes, all that it makes and others read.

    Nothing for a program without groups: there a plan leaves it to the compiler.
    """
    if not program.fused:
        return {}
    instructions = program.instructions
    kernel = {at: group[0] for group in program.fused for at in group}
    for at, one in enumerate(instructions):
        if isinstance(one, Done):
            kernel.setdefault(at, at)
    readers: dict[Key, set[int | None]] = {}
    for at, one in enumerate(instructions):
        for key in reads(one):
            readers.setdefault(key, set()).add(kernel.get(at))
    places: dict[int, list[int]] = {}
    for at, mine in sorted(kernel.items()):
        places.setdefault(mine, []).append(at)
    return {
        makes(instructions[some[-1]])[0]: tuple(
            key
            for at in some
            for key in makes(instructions[at])
            if readers.get(key, set()) - {mine}
        )
        for mine, some in places.items()
    }
