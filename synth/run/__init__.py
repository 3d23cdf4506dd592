"""THERE: schedules carried out by processes of this machine, from the very files handed out."""

from synth.run.backends import BACKENDS, Backend, Trial, run
from synth.run.errors import RunError

__all__ = ["BACKENDS", "Backend", "RunError", "Trial", "run"]
