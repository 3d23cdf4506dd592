"""Caches by an operation's form: everything except the names of its values.

Operations of all stages, and of the three projections of a layer, share their forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from grammar.tensors.operations import Operation, OperationForm

T = TypeVar("T")


def cache_by_form(compute: Callable[[Operation], T]) -> Callable[[Operation], T]:
    """Decorates a function to compute its result once for each form, as long as the form lives."""
    cache: WeakKeyDictionary[OperationForm, T] = WeakKeyDictionary()

    @wraps(compute)
    def cached(operation: Operation) -> T:
        form = operation.form
        if form not in cache:
            cache[form] = compute(operation)
        return cache[form]

    return cached
