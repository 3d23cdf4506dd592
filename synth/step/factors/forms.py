"""Caches by an operation's form: everything except the names of its values.

Operations of all stages, and of the three projections of a layer, share their forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from grammar.tensors.operations import Operation

T = TypeVar("T")


def cache_by_form(compute: Callable[[Operation], T]) -> Callable[[Operation], T]:
    """Decorates a function to compute its result once for each form, as long as the form lives."""

    @wraps(compute)
    def cached(operation: Operation) -> T:
        facts: dict[object, T] = operation.form.facts
        if compute not in facts:
            facts[compute] = compute(operation)
        return facts[compute]

    return cached
