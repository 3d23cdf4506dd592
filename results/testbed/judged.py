"""Puts the simulator's prices beside what was measured, case by case and all together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from hierarchies import System
from results.testbed.accuracy import Measured, fastest, first, summary, told
from results.testbed.cases import Case, Pair, cases
from results.testbed.flows import file_of
from results.testbed.hosts.traffic import busiest_seconds
from results.testbed.hosts.wiring import Wiring
from results.testbed.prices import Fit, fitted, nominal, prices

Told = dict[str, Any]
Pricing = Callable[[System, Sequence[Pair]], list[float]]
KINDS = {
    "fitted": "rates, latency and cost per byte of single flows",
    "nominal": "shaped rates only",
    "bytes": "no simulator: the bytes on each cable, at the fitted rates",
}


def finished(folder: Path) -> Iterator[tuple[Case, Told]]:
    """Every case that has been measured, with its file."""
    for case in cases():
        path = folder / f"{case.name}.json"
        if path.exists():
            yield case, json.loads(path.read_text(encoding="utf-8"))


def fit_of(case: Case, folder: Path) -> Fit:
    """What the single flows on a case's system say."""
    told_of = json.loads(file_of(folder, case.system).read_text(encoding="utf-8"))
    return fitted(told_of["flows"], len(case.shape))


def measured(case: Case, told_of: Told, fit: Fit, price: Pricing = prices) -> list[Measured]:
    """The pairs of a case with the prices that a fit gives."""
    pairs = case.pairs()
    samples = {
        (json.dumps(row["placement"]), row["program"]): row["microseconds"]
        for row in told_of["pairs"]
    }
    priced = price(fit.applied(case.system), pairs)
    return [
        summary(
            [each * 1e-6 for each in samples[json.dumps([list(r) for r in p.matrix]), p.program]],
            seconds,
        )
        for p, seconds in zip(pairs, priced, strict=True)
    ]


def figures(folder: Path) -> Told:
    """All figures: of all cases by kind of price, by shape, and of every case."""
    done = list(finished(folder))
    found = {
        "fitted": [measured(case, told_of, fit_of(case, folder)) for case, told_of in done],
        "nominal": [measured(case, told_of, nominal(case.system)) for case, told_of in done],
        "bytes": [
            measured(case, told_of, fit_of(case, folder), byte_prices) for case, told_of in done
        ],
    }
    shapes = list(dict.fromkeys(case.shape for case, _ in done))
    return {
        "of": len(cases()),
        "all": {kind: told(some) for kind, some in found.items()},
        "shapes": {
            "x".join(map(str, shape)): told(
                [
                    one
                    for one, (case, _) in zip(found["fitted"], done, strict=True)
                    if case.shape == shape
                ]
            )
            for shape in shapes
        },
        "cases": [
            _row(case, told_of, one)
            for (case, told_of), one in zip(done, found["fitted"], strict=True)
        ],
        "thrown": sum(told_of["thrown"] for _, told_of in done),
        "samples": sum(len(row["microseconds"]) for _, told_of in done for row in told_of["pairs"]),
        "dropped": sum(part["dropped"] for _, told_of in done for part in told_of["carried"]),
    }


def _row(case: Case, told_of: Told, some: Sequence[Measured]) -> Told:
    alone = told([some])
    best = fastest(some)
    order = first(some, len(some))
    return {
        "name": case.name,
        "commit": told_of["commit"],
        "pairs": len(some),
        "of_pairs": sum(1 for _ in case.all_pairs()),
        "fastest_seconds": min(one.seconds for one in some),
        "slowest_seconds": max(one.seconds for one in some),
        "place": min(order.index(i) for i in best) + 1,
        "tied_first": len(best),
        "ordered": alone["ordered"],
        "spearman": alone["spearman"]["mean"],
        "mean_error": alone["error"]["mean"],
        "mean_signed_error": mean(one.price_seconds / one.seconds - 1 for one in some),
        "worst_error": alone["error"]["worst"],
        "spread": median(one.spread_seconds / one.seconds for one in some),
        "thrown": told_of["thrown"],
        "sent_over_model": [part["sent_over_model"] for part in told_of["carried"]][-1],
    }


def byte_prices(system: System, pairs: Sequence[Pair]) -> list[float]:
    """Seconds of pairs by the byte model."""
    return [busiest_seconds(Wiring(system), pair.schedule) for pair in pairs]


def rounded(value: Any) -> Any:
    """Numbers to five digits, as data has them."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value
