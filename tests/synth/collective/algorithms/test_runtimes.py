"""What carries collectives out on the machines of the catalogue."""

from __future__ import annotations

import pytest

from hierarchies import catalogue, load
from synth.collective.algorithms.runtimes import CollectiveRuntime, runtime_of_system

OTHERS = {
    "tpu": CollectiveRuntime.XLA,
    "aws-trn2": CollectiveRuntime.NEURON,
    "mi3": CollectiveRuntime.RCCL,
}


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_each_machine_has_the_library_of_its_maker(name: str) -> None:
    expected = next(
        (by for start, by in OTHERS.items() if name.startswith(start)), CollectiveRuntime.NCCL
    )
    assert runtime_of_system(load(name)) is expected
    assert expected.told == (not expected.timing) == (not expected.untold)
