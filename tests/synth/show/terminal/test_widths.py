"""Tables fit 80 columns in a terminal and 120 in a pipe, whatever things are called."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from plain_text import printed
from replying import COMMANDS, body_of
from synth.show.terminal.table import TABLES

SHOWN = [
    *("systems", "system-slow", "import", "place", "count", "top", "striped", "top-sweep"),
    *("top-all-to-all", "uneven", "systems-ranked", "cost-slow", "cost-uneven", "plan"),
    *("check", "check-refuted", "lower-transposed", "time", "time-slow", "run", "doctor"),
]
LONGER = {
    "node": "compute_nodes_of_the_second_row",
    "gpu": "accelerators_behind_one_switch_asic",
    "data": "data_parallel_replicas_of_the_model",
    "model": "tensor_parallel_shards_of_it",
    "dgx-h100": "the-machine-we-bought-last-year-with-eight-accelerators-in-each-of-its-nodes",
}


def renamed(body: Any) -> Any:
    """The same answer of a machine whose levels and axes have long names.

    ``model`` is also how a runtime may choose, which is no name.
    """
    text = json.dumps(body)
    for short, long in LONGER.items():
        for around in ('"{}"', "{} inside", "{} parallel", "({})", "/{}", "{}="):
            text = text.replace(around.format(short), around.format(long))
    kept = f'"runtime": "{LONGER["model"]}"'
    return json.loads(text.replace(kept, '"runtime": "model"'))


def ink(text: str) -> Counter[str]:
    return Counter("".join(text.split()))


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("named", [lambda body: body, renamed], ids=["short", "long"])
def test_nothing_is_wider_than_the_screen_and_nothing_is_lost(name: str, named: Any) -> None:
    draw, body = TABLES[COMMANDS[name][0]], named(body_of(name))
    whole = ink(printed(draw(body), width=4000))
    for width in (80, 120):
        text = printed(draw(body), width=width)
        assert max(map(len, text.split("\n"))) <= width
        assert ink(text) == whole
