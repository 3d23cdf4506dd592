"""The generated part of the results page about the test network."""

from __future__ import annotations

from typing import Any

from record import table
from testbed.accuracy import APART, TOPS
from testbed.judged import KINDS

Told = dict[str, Any]
_TARGETS = {1: 0.8, 5: 0.95, 10: 1.0}
_RIGHT, _ERROR = 0.995, 0.03


def section(data: Told) -> str:
    """The text between the markers."""
    return "\n\n".join([_progress(data), _targets(data), _kinds(data), _cases(data), _origin(data)])


def _progress(data: Told) -> str:
    done = len(data["cases"])
    more = (
        ""
        if done == data["of"]
        else (
            f" Still to be measured: {data['of'] - done} of the list of {data['of']} "
            "(`results/testbed/campaign.sh` goes on with them)."
        )
    )
    whole = data["all"]["fitted"]
    return (
        f"{done} cases with {whole['pairs']} pairs of placement and program, {data['samples']} "
        "samples; "
        f"{data['thrown']} samples were thrown away as other processes had the processors, "
        f"{data['dropped']} packets were dropped.{more}"
    )


def _targets(data: Told) -> str:
    whole = data["all"]["fitted"]
    rows = []
    for k in TOPS:
        top = whole[f"top{k}"]
        share = top["hits"] / top["of"]
        rows.append(
            [
                f"the truly fastest is among the simulator's first {k}"
                if k > 1
                else "the truly fastest is the simulator's first",
                f"{_TARGETS[k]:.0%} of cases",
                f"{top['hits']} of {top['of']} ({_interval(top)})",
                _met(share >= _TARGETS[k]),
            ]
        )
    pairs = whole["ordered"]
    rows.append(
        [
            f"pairs more than {APART:.0%} apart that are ordered right",
            f"{_RIGHT:.1%}",
            _share(pairs),
            _met(pairs["right"] >= _RIGHT * pairs["of"]),
        ]
    )
    error = whole["error"]
    told = f"{error['mean']:.2%} (worst {error['worst']:.1%})"
    rows.append(["mean error", f"{_ERROR:.0%} at most", told, _met(error["mean"] <= _ERROR)])
    return table(["figure", "aim", "found", "met"], rows)


def _met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def _share(count: Told) -> str:
    return f"{count['right']} of {count['of']} ({count['right'] / count['of']:.2%})"


def _interval(top: Told) -> str:
    low, high = top["wilson"]
    return f"95 % interval {low:.0%} to {high:.0%}"


def _kinds(data: Told) -> str:
    rows = [_figures(KINDS[kind], told) for kind, told in data["all"].items()]
    rows += [_figures(f"the first, {shape} only", told) for shape, told in data["shapes"].items()]
    head = ["prices from", "cases", *(f"top {k}" for k in TOPS), "tied first", "tied pairs"]
    return table([*head, "pairs ordered right", "Spearman, least", "mean error", "worst"], rows)


def _figures(name: str, told: Told) -> list[str]:
    return [
        name,
        str(told["cases"]),
        *(f"{told[f'top{k}']['hits']}" for k in TOPS),
        str(told["cases_with_a_tied_fastest"]),
        f"{told['tied_share']:.1%}",
        _share(told["ordered"]),
        f"{told['spearman']['mean']:.4f}, {told['spearman']['least']:.4f}",
        f"{told['error']['mean']:.2%}",
        f"{told['error']['worst']:.1%}",
    ]


def _cases(data: Told) -> str:
    rows = [
        [
            case["name"],
            str(case["pairs"])
            if case["pairs"] == case["of_pairs"]
            else f"{case['pairs']} of {case['of_pairs']}",
            f"{1e3 * case['fastest_seconds']:.0f} to {1e3 * case['slowest_seconds']:.0f}",
            f"{case['place']}",
            f"{case['tied_first']}",
            f"{case['ordered']['right']} of {case['ordered']['of']}",
            f"{case['spearman']:.4f}",
            f"{case['mean_error']:.1%}",
            f"{case['mean_signed_error']:+.1%}",
            f"{case['worst_error']:.1%}",
            f"{case['spread']:.1%}",
            " ".join("-" if part is None else f"{part:.3f}" for part in case["sent_over_model"]),
        ]
        for case in data["cases"]
    ]
    head = ["case", "pairs", "ms", "place of the fastest", "tied with it", "ordered right"]
    head += ["Spearman", "mean error", "signed", "worst", "spread", "bytes over model"]
    return "Every case, by the fitted prices:\n\n" + table(head, rows)


def _origin(data: Told) -> str:
    return f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}."
