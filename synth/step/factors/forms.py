"""What follows from an operation's form is worked out once: names of values are no part of it.

Sixteen stages, and the three projections of a layer, have operations of one form each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from grammar.tensors.operations import Operation, OperationForm

T = TypeVar("T")


def cache_by_form(work: Callable[[Operation], T]) -> Callable[[Operation], T]:
    """The same, worked out once for each form and kept as long as an operation has it."""
    known: WeakKeyDictionary[OperationForm, T] = WeakKeyDictionary()

    @wraps(work)
    def found(operation: Operation) -> T:
        form = operation.form
        if form not in known:
            known[form] = work(operation)
        return known[form]

    return found
