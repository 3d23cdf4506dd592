"""Some training steps in real processes, beside the same steps on one device.

What runs is the emitted file itself, and what it is compared with is the model's own function,
which knows no plan: what is checked is what is handed out.

>>> from grammar.tensors.parser import parse_step
>>> from synth.train.trials import drawn
>>> step = parse_step('''
... step total
... in x: f32[8,2] batch
... v0: f32[] = reduce_sum(x) axes=(0,1)
... out v0
... ''')
>>> drawn(step, steps=3, classes=2)["x"].shape
(3, 8, 2)
"""

from synth.train.trials.alone import Alone, as_text, in_jax
from synth.train.trials.comparison import Compared, Row, compared
from synth.train.trials.inputs import Values, drawn
from synth.train.trials.processes import Sharded, Trial, check, trained

__all__ = [
    "Alone",
    "Compared",
    "Row",
    "Sharded",
    "Trial",
    "Values",
    "as_text",
    "check",
    "compared",
    "drawn",
    "in_jax",
    "trained",
]
