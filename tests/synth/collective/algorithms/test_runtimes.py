"""What carries collectives out on the machines of the catalogue."""

from __future__ import annotations

import pytest

from hierarchies import catalogue, load
from synth.collective.algorithms.runtimes import Runtime, runtime

OTHERS = {
    "tpu": Runtime.XLA,
    "aws-trn2": Runtime.NEURON,
    "mi3": Runtime.RCCL,
}


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_each_machine_has_the_library_of_its_maker(name: str) -> None:
    expected = next((by for start, by in OTHERS.items() if name.startswith(start)), Runtime.NCCL)
    assert runtime(load(name)) is expected
    assert expected.told == (not expected.timing) == (not expected.untold)
