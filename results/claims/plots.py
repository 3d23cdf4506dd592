"""The pictures: speed-ups of all placements, and what the placement alone decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes

from results.claims.survey import Case, by_request, effect

matplotlib.use("Agg")
Panel = Callable[[Axes, Sequence[Case]], None]
COLOURS = {"ring": "tab:blue", "tree": "tab:orange"}


def draw(cases: Sequence[Case], folder: Path) -> None:
    """Write every picture of the README."""
    systems = list(dict.fromkeys(case.system for case in cases))
    _page(folder / "speedup.png", cases, systems, _speedups, "placements, sorted")
    _page(folder / "placement.png", cases, systems, _effects, "requests, sorted")


def _page(
    path: Path, cases: Sequence[Case], systems: Sequence[str], panel: Panel, below: str
) -> None:
    figure, grid = pyplot.subplots(2, 2, figsize=(8, 5.5), sharey=True, layout="constrained")
    for axes, system in zip(grid.flat, systems, strict=True):
        panel(axes, [case for case in cases if case.system == system])
        axes.set_title(system, fontsize=10)
        axes.set_xlabel(below, fontsize=8)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def _by_algorithm(cases: Sequence[Case]) -> dict[str, list[Case]]:
    apart: dict[str, list[Case]] = {}
    for case in cases:
        apart.setdefault(case.algorithm, []).append(case)
    return apart


def _speedups(axes: Axes, cases: Sequence[Case]) -> None:
    for algorithm, some in _by_algorithm(cases).items():
        ratios = sorted((case.speedup for case in some), reverse=True)
        axes.step(range(len(ratios)), ratios, label=algorithm, color=COLOURS[algorithm])
    axes.set_ylabel("best program against\nthe plain all-reduce", fontsize=8)


def _effects(axes: Axes, cases: Sequence[Case]) -> None:
    for algorithm, some in _by_algorithm(cases).items():
        ratios = [effect(group) for group in by_request(some).values() if len(group) > 1]
        ratios.sort(reverse=True)
        axes.step(range(len(ratios)), ratios, label=algorithm, color=COLOURS[algorithm])
    axes.set_yscale("log")
    axes.set_ylabel("slowest against fastest placement\nof the plain all-reduce", fontsize=8)
