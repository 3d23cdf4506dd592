"""What the product says of published steps: ``python -m results.steps.unfitted``.

Nothing is fitted: peaks of nanotron's runs as ``plan`` counts them, and steps of ResNet-50 as
``simulate`` has them. ``--page`` and ``--check`` as in ``results.steps``.
"""

from __future__ import annotations

import sys
from typing import Any

from results import pages, record
from results.steps import __main__ as fitted
from results.steps.rows import families
from results.steps.unfitted import counted, resnet

COMMAND = "python -m results.steps.unfitted"


def made() -> dict[str, Any]:
    """All rows of both comparisons."""
    nanotron = next(families())
    return record.origin(COMMAND) | {"memory": counted.made(nanotron), "resnet": resnet.made()}


def page(data: dict[str, Any]) -> pages.Page:
    """README.md with the sections about published steps as this data has them."""
    return fitted.page(record.read(fitted.DATA), data)


if __name__ == "__main__":
    sys.exit(pages.command(COMMAND, fitted.UNFITTED, made, page))
