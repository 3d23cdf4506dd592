"""The rules that FlexFlow ships, each proved, refuted or outside, and counted by reasons.

``python -m results.rules FILE`` writes rules.json and a section of README.md. FILE is
``substitutions/graph_subst_3_v2.json`` of FlexFlow, which is not kept here (2 MB, Apache-2.0): the
source distribution of the Python package ``flexflow`` 23.8.0 has it. ``--check`` compares a fresh
run with what is here, ``--page`` writes the page of it.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from hierarchies import InputError
from results import pages, record
from results.rules.values import values_alike
from synth.train.substitutions.flexflow import Outside, Refuted, Rule, judged, read_rules
from synth.verify.verdict import Proved

DATA = Path(__file__).with_name("rules.json")
COMMAND = "python -m results.rules FILE"


def counted(text: str) -> dict[str, Any]:
    """The rules of a collection by what is said of them. Raises InputError for another text."""
    said: defaultdict[tuple[str, str], list[tuple[Rule, Proved | Refuted | Outside]]]
    said = defaultdict(list)
    rules = read_rules(text)
    for rule in rules:
        found = judged(rule)
        because = "" if isinstance(found, Proved) else found.because
        said[type(found).__name__.lower(), because].append((rule, found))
    reasons = sorted(said.items(), key=lambda one: (ORDER[one[0][0]], -len(one[1]), one[0]))
    return {
        "sha256": sha256(text.encode()).hexdigest(),
        "rules": len(rules),
        "reasons": [_reason(*key, of) for key, of in reasons],
    }


ORDER = {"proved": 0, "refuted": 1, "outside": 2}


def _reason(
    verdict: str, because: str, of: list[tuple[Rule, Proved | Refuted | Outside]]
) -> dict[str, Any]:
    refuted = [found for _, found in of if isinstance(found, Refuted)]
    witness = refuted[0].witness if refuted else None
    return {
        "verdict": verdict,
        "because": because,
        "count": len(of),
        "linear": sum(_has(rule, "OP_LINEAR") for rule, _ in of),
        "alike": sum(values_alike(rule) for rule, _ in of),
        "elsewhere": sum(found.elsewhere for found in refuted),
        "example": None if witness is None else str(witness),
        "rules": [rule.name for rule, _ in of],
    }


def _has(rule: Rule, kind: str) -> bool:
    return any(one.type == kind for one in (*rule.source, *rule.target))


def page(data: dict[str, Any]) -> str:
    """README.md with its section about FlexFlow's rules as the data has it."""
    totals = {
        verdict: sum(one["count"] for one in data["reasons"] if one["verdict"] == verdict)
        for verdict in ORDER
    }
    totals["alike"] = sum(one["alike"] for one in data["reasons"])
    return pages.page("rules", data=data, totals=totals)


def main() -> int:
    given = argparse.ArgumentParser(prog="python -m results.rules", description=__doc__)
    given.add_argument("file", nargs="?", type=Path, help="graph_subst_3_v2.json of FlexFlow")
    given.add_argument("--page", action="store_true", help="write the page from the data on disk")
    given.add_argument("--check", action="store_true", help="compare a fresh run with the data")
    asked = given.parse_args()
    if asked.page:
        pages.write(page(record.read(DATA)))
        return 0
    if asked.file is None:
        given.error("which FILE? substitutions/graph_subst_3_v2.json of flexflow 23.8.0 has them")
    try:
        text = asked.file.read_text(encoding="utf-8")
        data = record.origin(COMMAND) | counted(text)
    except (OSError, ValueError, InputError) as error:
        print(f"{asked.file}: {error}", file=sys.stderr)
        return 2
    return pages.keep_or_check(DATA, data, page, check=asked.check)


if __name__ == "__main__":
    sys.exit(main())
