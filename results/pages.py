"""The generated parts of README.md about the paper's claims, from ``data/claims.json``."""

from __future__ import annotations

from typing import Any

from record import table

Claims = dict[str, Any]
LETTERS = {
    "system": "(a) system",
    "columns": "(b) columns",
    "rows": "(c) rows",
    "reduction": "(d) reduction axes",
    "reduction-uncollapsed": "(d) not collapsed",
}


def sections(claims: Claims, data: dict[str, Any]) -> dict[str, str]:
    """The text of every generated section, by its name."""
    return {
        "claims": f"{_claims(claims, data)}\n\n{_whys(claims)}\n\n{_origin(data)}",
        "surveys": f"{_surveys(data)}\n\n{_reaches(data)}\n\n{_winners(data)}",
        "variants": f"{_variants(data)}\n\n{_sums(data)}",
    }


def _origin(data: dict[str, Any]) -> str:
    return f"Made by `{data['command']}` at commit {data['commit']}, {data['date']}."


def _claims(claims: Claims, data: dict[str, Any]) -> str:
    rows = []
    for claim in claims["claim"]:
        ours = [_figure(claim, data["together"][name]) for name in ("ring", "tree")]
        published = f"{claim['published']} ({claim['source']})"
        rows.append([f"{claim['title']} [{claim['id']}]", published, *ours])
    return table(["claim", "published", "ours, ring", "ours, tree"], rows)


def _figure(claim: Claims, together: dict[str, Any]) -> str:
    if "figure" not in claim:
        return "not tested"
    found: Any = together
    for key in claim["figure"]:
        found = found[key]
    told: str = claim["form"].format(found)
    return told


def _whys(claims: Claims) -> str:
    lines = [f"* **{claim['id']}**: {' '.join(claim['why'].split())}" for claim in claims["claim"]]
    return "\n".join(["Why they differ:", "", *lines])


def _surveys(data: dict[str, Any]) -> str:
    rows = [
        [
            f"{part['system']}, {part['algorithm']}",
            str(part["wins"]["all"]["cases"]),
            f"{part['effect']['max']:.1f}x",
            f"{part['effect']['median']:.1f}x",
            *_wins(part["wins"]["all"]),
        ]
        for part in data["systems"]
    ]
    head = ["system, algorithm", "placements", "placement effect: max", "median", *_WINS]
    return table(head, rows)


_WINS = ["won by > 1 %", "won at all", "max", "mean of wins", "mean of all"]


def _wins(wins: dict[str, Any]) -> list[str]:
    mean = wins["mean_of_wins"]
    return [
        f"{wins['share']:.0%}",
        f"{wins['share_any']:.0%}",
        f"{wins['max']:.2f}x",
        "-" if mean is None else f"{mean:.2f}x",
        f"{wins['mean_of_all']:.2f}x",
    ]


def _reaches(data: dict[str, Any]) -> str:
    rows = [
        [f"{algorithm}, {reach}", str(wins["cases"]), *_wins(wins)]
        for algorithm, together in data["together"].items()
        for reach, wins in together["wins"].items()
    ]
    said = "The same, all systems together, by what the groups span and by the number of axes:"
    return f"{said}\n\n" + table(["algorithm, groups", "placements", *_WINS], rows)


def _winners(data: dict[str, Any]) -> str:
    rows = []
    for algorithm, together in data["together"].items():
        won = sum(together["winners"].values())
        for program, count in list(together["winners"].items())[:5]:
            rows.append([algorithm, f"`{program}`", f"{count / won:.0%}"])
    head = ["algorithm", "program", "share of the wins"]
    return "The programs that win most often:\n\n" + table(head, rows)


_COUNTED = ("programs", "beyond", "beyond_symmetric", "beyond_across")
_BEYOND = ["not in (d)", "of these symmetric", "not with `--across`"]


def _variants(data: dict[str, Any]) -> str:
    rows = []
    for example in data["variants"]["examples"]:
        for variant, told in example["variants"].items():
            name = f"{example['about']}: {example['matrix']}, reduce {example['reduce']}"
            rows.append(
                [
                    name if variant == "system" else "",
                    LETTERS[variant],
                    " x ".join(map(str, told["tree"])),
                    *(str(told[key]) for key in ("instructions", "states")),
                    ", ".join(map(str, told["by_length"])),
                    *(str(told[key]) for key in _COUNTED),
                ]
            )
    head = ["request", "variant", "tree", "instructions", "states", "by length", "programs"]
    return table([*head, *_BEYOND], rows)


def _sums(data: dict[str, Any]) -> str:
    rows = []
    for total in data["variants"]["sums"]:
        for variant, told in total["variants"].items():
            name = f"{total['about']} ({total['requests']} placed requests)"
            rows.append(
                [
                    name if variant == "system" else "",
                    LETTERS[variant],
                    *(str(told[key]) for key in ("unanswered", "instructions", "states")),
                    *(str(told[key]) for key in _COUNTED),
                ]
            )
    head = ["all placements, each single axis", "variant", "requests without a program"]
    head += ["instructions", "states", "programs", *_BEYOND]
    return "Summed:\n\n" + table(head, rows)
