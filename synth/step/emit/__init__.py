"""Writes a sharded step as one Python file for JAX or PyTorch, the same for every device.

>>> from grammar.tensors.parser import parse_step
>>> from synth.step.emit import write
>>> from synth.step.sharding import apply, parse_recipe, plan_of
>>> step = parse_step('''
... step total
... in x: f32[8,2] batch
... v0: f32[] = reduce_sum(x) axes=(0,1)
... out v0
... ''')
>>> plan = plan_of(step, parse_recipe("data=4; batch over data"))
>>> text = write("jax", step, apply(step, plan), plan.sizes)
>>> print(text[text.index("def device_step"):].partition("\\n\\n")[0])
def device_step(values):
    \"\"\"What every device does of a step, on its parts of the inputs.\"\"\"
    (x,) = values  # f32[8@data,2]
    v0 = lax.reduce_sum(x, (0, 1))  # f32[]{sum:data}
    v0_reduced = lax.psum(v0, ("data",))  # all-reduce (sum) over data: f32[]
    return (v0_reduced,)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from synth.step.emit.sections import Phase, ProgramSection, split_sections

if TYPE_CHECKING:
    from synth.step.emit.files import (
        LANGUAGES,
        NOT_EXECUTED,
        add_statement,
        write,
        write_operations,
    )
    from synth.step.emit.listing import output_names
    from synth.step.emit.programs import Programs, programs_for

__all__ = [
    "LANGUAGES",
    "NOT_EXECUTED",
    "Phase",
    "ProgramSection",
    "Programs",
    "add_statement",
    "output_names",
    "programs_for",
    "split_sections",
    "write",
    "write_operations",
]

_WRITERS = {"output_names": "listing", "Programs": "programs", "programs_for": "programs"}


def __getattr__(name: str) -> Any:
    """Imports what writes files when it is first used: plans are simulated by sections alone."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WRITERS.get(name, 'files')}"), name)
