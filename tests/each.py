"""Many small cases as one test: a test of its own costs each more to begin than to run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any


def each(
    names: str | tuple[str, ...], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, but one test, which ends at the first case that fails.

    The failure names its case. Fixtures are the same for all cases.
    """
    several = (names,) if isinstance(names, str) else names
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in cases]
    assert rows

    def put(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**fixtures: Any) -> None:
            for row in rows:
                given = dict(zip(several, row, strict=True))
                try:
                    test(**fixtures, **given)
                except BaseException as error:
                    error.add_note(f"in the case {str(given)[:300]}")
                    raise

        taken = inspect.signature(test)
        left = [one for name, one in taken.parameters.items() if name not in several]
        whole.__signature__ = taken.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return put
