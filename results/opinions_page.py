"""The generated part of README.md about the second opinion, from ``data/opinions.json``."""

from __future__ import annotations

from typing import Any

from record import table

Data = dict[str, Any]


def sections(data: Data) -> dict[str, str]:
    """The text of every generated section, by its name."""
    origin = (
        f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}, with SimGrid "
        f"{data['simgrid']}: {data['messages']:,} messages, chains and trees in "
        f"{data['cut']} pieces."
    )
    parts = [_cases(data), _kinds(data), _pieces(data), _segments(data), _fairness(data), origin]
    return {"opinions": "\n\n".join(parts)}


_RATIOS = ["lowest", "median", "highest", "within 1 %"]
_ORDER = ["Spearman", "ordered right", "regret"]


def _ratios(told: Data) -> list[str]:
    ends = [f"{told[key]:.3f}" for key in ("lowest", "median", "highest")]
    return [*ends, f"{told['near']:.0%}"]


def _order(told: Data) -> list[str]:
    right = f"{told['right']} of {told['apart']}"
    return [f"{told['spearman']:.4f}", right, f"{told['regret']:.3f}"]


def _request(case: Data) -> list[str]:
    axes = " x ".join(map(str, case["sizes"]))
    over = ", ".join(str(case["sizes"][i]) for i in case["over"])
    return [case["system"], f"{axes}, over the {over}" if len(case["sizes"]) > 1 else axes]


def _cases(data: Data) -> str:
    rows = [
        [
            *_request(case),
            f"{case['bytes'] >> 20} MiB",
            case["choice"],
            str(case["pairs"]),
            *_ratios(case["stepped"]),
            *_order(case["stepped"]),
        ]
        for case in data["cases"]
    ]
    head = ["system", "axes", "payload", "algorithm", "pairs", *_RATIOS, *_ORDER]
    pairs = sum(case["pairs"] for case in data["cases"])
    apart = sum(case["stepped"]["apart"] for case in data["cases"])
    right = sum(case["stepped"]["right"] for case in data["cases"])
    said = (
        f"{pairs} pairs of placement and program in {len(rows)} cases; of {apart} comparisons more "
        f"than 5 % apart SimGrid orders {right} ({right / apart:.2%}) as we do. SimGrid's seconds "
        "over ours, steps as barriers:"
    )
    return f"{said}\n\n{table(head, rows)}"


def _kinds(data: Data) -> str:
    rows = [
        [
            kind["collective"],
            kind["algorithm"],
            kind["spans"],
            str(kind["phases"]),
            *(_extremes(kind[key]) for key in ("bytes_alone", "waits_alone", "whole")),
        ]
        for kind in data["kinds"]
    ]
    head = ["collective", "algorithm", "groups span", "phases", "bytes alone", "waits alone"]
    said = "The same for every distinct phase; lowest to highest, with waits or bytes left out:"
    return f"{said}\n\n{table([*head, 'together'], rows)}"


def _extremes(told: Data) -> str:
    low, high = f"{told['lowest']:.3f}", f"{told['highest']:.3f}"
    return low if low == high else f"{low} to {high}"


def _pieces(data: Data) -> str:
    cuts = sorted(data["pieces"][0]["ratios"], key=int)
    rows = [
        [one["system"], " ".join(one["kind"]), *(f"{one['ratios'][cut]:.4f}" for cut in cuts)]
        for one in data["pieces"]
    ]
    head = ["system", "step", *(f"{cut} pieces" for cut in cuts)]
    said = "Chains and trees over all devices, 256 MiB, in more and more pieces:"
    return f"{said}\n\n{table(head, rows)}"


def _segments(data: Data) -> str:
    rows = [
        [*_request(case), str(case["pairs"]), engine, *_ratios(case[engine]), *_order(case[engine])]
        for case in data["segments"]
        for engine in ("overlap", "flows")
    ]
    head = ["system", "axes", "pairs", "against", *_RATIOS, *_ORDER]
    count = data["segments"][0]["segments"]
    return f"256 MiB in {count} segments whose steps overlap, by rings:\n\n{table(head, rows)}"


def _fairness(data: Data) -> str:
    told = data["fairness"]
    return (
        f"Random flows that come and go, {told['flows']} in {told['sets']} sets: no end that "
        f"`synth.events.max_min` gives differs from SimGrid's by more than "
        f"{told['worst']:g} of the whole."
    )
