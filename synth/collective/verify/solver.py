"""z3, imported when it is first asked: most questions ask for nothing that is not proved already.

Importing z3 takes as long as several proofs.

>>> z3.simplify(z3.And(True, True))
True
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LateModule:
    """A module that is imported when the first of its names is looked up."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


z3: Any = _LateModule("z3")
