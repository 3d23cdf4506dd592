"""The generated parts of README.md about fidelity, from ``data/fidelity.json``."""

from __future__ import annotations

from typing import Any

from record import table

Data = dict[str, Any]
LARGE_MEDIAN, LARGE_P90, MIDDLE_MEDIAN, RIGHT = 0.05, 0.15, 0.15, 0.95
SIZES = {"large": "16 MiB and more", "middle": "64 KiB to 16 MiB", "small": "less"}
KINDS = {"sizes": "sizes between", "tables": "other tables"}


def sections(data: Data, told: Data, spreads: Data) -> dict[str, str]:
    """The text of every generated section, by its name."""
    origin = f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}."
    return {
        "fidelity": f"{_targets(data)}\n\n{origin}",
        "fidelity spreads": _spreads(data, spreads),
        "fidelity families": f"{_families(data)}\n\n{_whys(told)}\n\n{_excluded(data)}",
    }


def targets(data: Data) -> list[tuple[str, str, str, bool]]:
    """What is aimed at, how far, what was found, and whether it is met."""
    found = []
    for kind, name in KINDS.items():
        large, middle = data["all"][kind]["large"], data["all"][kind]["middle"]
        found += [
            _at_most(f"{name}: 16 MiB and more, median error", LARGE_MEDIAN, large["median"]),
            _at_most(f"{name}: 16 MiB and more, 90th percentile", LARGE_P90, large["p90"]),
            _at_most(f"{name}: 64 KiB to 16 MiB, median error", MIDDLE_MEDIAN, middle["median"]),
        ]
        pairs, hits = (sum(each[i] for each in data["pairs"][kind].values()) for i in (0, 1))
        share = hits / pairs
        what = f"{name}: the faster of two options named right, of {pairs} pairs"
        found.append((what, f"at least {RIGHT:.0%}", f"{share:.1%}", share >= RIGHT))
    return found


def _at_most(what: str, limit: float, found: float) -> tuple[str, str, str, bool]:
    return what, f"at most {limit:.0%}", f"{found:.1%}", found <= limit


def _targets(data: Data) -> str:
    rows = [
        [what, aim, found, "yes" if met else "**no**"] for what, aim, found, met in targets(data)
    ]
    return (
        table(["what", "aim", "found", "met"], rows)
        + "\n\n"
        + _pairs(data)
        + "\n\n"
        + _covered(data)
    )


def _pairs(data: Data) -> str:
    rows = [
        [what, *(_share(data["pairs"][kind][what]) for kind in KINDS)]
        for what in ("algorithms", "placements", "programs")
    ]
    return table(["pairs of", *KINDS.values()], rows)


def _share(pair: list[int]) -> str:
    return f"{pair[1]} of {pair[0]}" if pair[0] else "-"


def _covered(data: Data) -> str:
    rows = []
    for kind, name in KINDS.items():
        for size, said in (
            ("large", "16 MiB and more"),
            ("middle", "64 KiB to 16 MiB"),
            ("small", "less"),
        ):
            each = data["all"][kind][size]
            held = [f"{each['covered']:.0%}", f"x{each['width']:.2f}"]
            rows.append([name, said, str(each["rows"]), *_errors(each), *held])
    head = ["judged by", "sizes", "rows", *_ERRORS, "in their interval of 90%", "its ends, median"]
    return table(head, rows)


def _spreads(data: Data, spreads: Data) -> str:
    """The figures with the spreads as they are, and with others."""
    factors = {"1": data} | spreads["factors"]
    ordered = sorted(factors, key=float)
    rows = [
        [what, *(targets(factors[one])[number][2] for one in ordered)]
        for number, (what, *_) in enumerate(targets(data))
    ]
    for size, said in SIZES.items():
        held = [f"{factors[one]['all']['tables'][size]['covered']:.0%}" for one in ordered]
        rows.append([f"other tables: {said}, in their interval of 90%", *held])
    head = ["what", *(f"spreads times {one}" for one in ordered)]
    origins = [f"{one} at commit {factors[one]['commit']}" for one in ordered if one != "1"]
    made = f"Made by `{spreads['command']}`: {', '.join(origins)}." if origins else ""
    return f"{table(head, rows)}\n\n{made}".strip()


_ERRORS = ["median", "90th percentile", "runs apart: median / 90th"]


def _errors(each: Data) -> list[str]:
    floor = each["noise"]
    apart = f"{floor['median']:.1%} / {floor['p90']:.1%}" if floor else "-"
    return [f"{each['median']:.1%}", f"{each['p90']:.1%}", apart]


def _families(data: Data) -> str:
    rows = []
    for family in data["families"]:
        for kind, name in KINDS.items():
            judged = family["judged"][kind]
            if judged:
                cells = [_cell(judged.get(size)) for size in ("large", "middle", "small")]
                floor = (judged.get("large") or {}).get("noise")
                apart = f"{floor['p90']:.1%}" if floor else "-"
                pairs = [sum(each[i] for each in family["pairs"][kind].values()) for i in (0, 1)]
                met = "yes" if meets(judged) else "**no**"
                rows.append(
                    [family["name"], str(family["tables"]), name, *cells, apart, _share(pairs), met]
                )
    head = ["family", "tables", "judged by", "16 MiB and more", "64 KiB to 16 MiB", "less"]
    return table([*head, "runs apart, large", "pairs right", "met"], rows)


def meets(judged: Data) -> bool:
    """Whether a family's errors are as small as is aimed at."""
    large, middle = judged.get("large"), judged.get("middle")
    if large:
        limit = max(LARGE_P90, 2 * large["noise"]["p90"] if large["noise"] else 0.0)
        if large["median"] > LARGE_MEDIAN or large["p90"] > limit:
            return False
    return not middle or middle["median"] <= MIDDLE_MEDIAN


def _cell(each: Data | None) -> str:
    return f"{each['median']:.1%} / {each['p90']:.1%}" if each else "-"


def _whys(told: Data) -> str:
    lines = [
        f"* **{family['name']}**: {' '.join(family['why'].split())}"
        for family in told["family"]
        if "why" in family
    ]
    return "\n".join(["Where it falls short, and why:", "", *lines])


def _excluded(data: Data) -> str:
    lines = [f"* {name}: {why}." for name, why in data["excluded"].items()]
    return "\n".join(["Not judged:", "", *lines])
