"""What is said aloud of a machine that its numbers alone would not say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hierarchies import load
from plain_text import printed
from synth.ask.answers.machine_parts import MachineInFull
from synth.ask.answers.parts import to_json
from synth.ask.machines import SystemReply
from synth.show.terminal.table import TABLES


@pytest.mark.parametrize(
    ("ports", "said"), [(12, "3 for every 2"), (3, "1 for every 3"), (8, ""), (4, ""), (16, "")]
)
def test_ports_that_do_not_divide_are_stated(ports: int, said: str) -> None:
    system = load("dgx-h100:2")
    uneven = replace(system, links=(replace(system.links[0], ports=ports), *system.links[1:]))
    text = printed(TABLES["systems"](to_json(SystemReply.like(system=MachineInFull.of(uneven)))))
    assert (said in text) if said else ("for every" not in text)


def test_open_ends_are_stated() -> None:
    for spec, open_ends in (("tpu-v5e-slice:8x8", 2), ("tpu-v5e-slice", 0)):
        reply = SystemReply.like(system=MachineInFull.of(load(spec)))
        assert printed(TABLES["systems"](to_json(reply))).count("open ends") == open_ends
