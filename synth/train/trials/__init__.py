"""Some training steps in real processes, beside the same steps on one device.

What runs is the emitted file itself, and what it is compared with is the model's own function,
which knows no plan: what is checked is what is handed out.
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
