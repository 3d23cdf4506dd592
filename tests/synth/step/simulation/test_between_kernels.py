"""What kernels compute again of what others make, worked out by hand for steps of a few lines.

A product, a loop, or what is sent is no part of a kernel: one ends before it, another begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.tensors.operations import Step
from grammar.tensors.parser import parse_step
from grammar.tensors.sharding import Sharding, Split
from synth.step.factors import list_rows
from synth.step.sharding import Cuts, InstructionPlace, Plan, StepPhase, StepProgram, apply
from synth.step.sharding.program import EVERYWHERE
from synth.step.simulation.remade import find_kernel_recomputed, find_recomputed

WHOLE, HALF = Sharding(((), ())), Sharding((("data",), ()))
NUMBERS = "dimension_numbers=(((1),(0)),((),()))"
PRODUCT = f"dot_general(z, z) {NUMBERS}"
LOOP = """scan(z, w) length=2 num_carry=1 num_consts=0 {
  in v1: f32[4,4]
  in v2: f32[4,4]
  v3: f32[4,4] = add(v1, v2)
  out v3
}"""
SIZES = {"data": 2}
FORWARD, BACKWARD, AFTER = (
    InstructionPlace(0, when) for when in (StepPhase.FORWARD, StepPhase.BACKWARD, StepPhase.AFTER)
)
EVERY = InstructionPlace(EVERYWHERE, StepPhase.FORWARD)


def step_of(*lines: str, of: str = "f32") -> Step:
    """A step of x, z and w; each line has a name, and what it is, and makes 4 by 4 float32."""
    names, does = zip(*(line.split(" = ", 1) for line in lines), strict=True)
    typed = [name if ":" in name else f"{name}: f32[4,4]" for name in names]
    values = map(" = ".join, zip(typed, does, strict=True))
    inputs = f"in x: {of}[4,4] batch\nin z: f32[4,4] batch\nin w: f32[2,4,4] parameter"
    return parse_step("\n".join(["step kernels", inputs, *values, f"out {names[-1]}", ""]))


def program_of(step: Step, in_halves: Collection[str] = "", x: Sharding = WHOLE) -> StepProgram:
    """The step on two devices: each does all of it, and half of what makes ``in_halves``."""
    chosen = []
    for operation in step.graph.operations:
        if operation.body is not None:
            chosen.append(Cuts((WHOLE, WHOLE), ((),)))
        elif {value.name for value in operation.results} & {*in_halves}:
            half = next(row for row in list_rows(operation) if row.operands[0] == Split(0))
            chosen.append((("data", half),))
        else:
            chosen.append(())
    inputs = (x, WHOLE, Sharding(((), (), ())))
    return apply(step, Plan((("data", 2),), Cuts(inputs, tuple(chosen))))


def again(
    step: Step, program: StepProgram, gone: Sequence[str] = (), absent: Sequence[str] = ()
) -> Mapping[str, Collection[str]]:
    """By name what is computed again, and of what."""
    ends = [(str(one), lies) for one, lies in zip(step.graph.outputs, program.outputs, strict=True)]
    left = [(name, WHOLE) for name in gone]
    found = find_kernel_recomputed(
        program, [*ends, *left], lambda kind, lies: kind.bytes, SIZES, left, absent
    )
    return {name: {source for source, _ in sources} for (name, _), sources in found.items()}


def again_in(*lines: str, of: str = "f32", gone: str = "", absent: str = "") -> object:
    step = step_of(*lines, of=of)
    return again(step, program_of(step), gone.split(), absent.split())


@pytest.mark.parametrize("between", [PRODUCT, LOOP])
def test_what_a_later_kernel_reads_is_made_again_of_an_input(between: str) -> None:
    """Before the loop or product is one kernel, behind it another."""
    assert again_in("a = exp(x)", f"p = {between}", "y = add(a, p)") == {"a": {"x"}}
    assert again_in(f"p = {between}", "a = exp(x)", "y = add(a, p)") == {}


def test_what_an_earlier_kernel_wrote_anyway_is_read_rather_than_as_much_written() -> None:
    """A sum is not made again; of it, and what comes of it element by element, one is kept."""
    assert again_in(
        "s: f32[4] = reduce_sum(x) axes=(1)",
        f"p = {PRODUCT}",
        "a: f32[4] = exp(s)",
        f"q = {PRODUCT}",
        "b: f32[4] = neg(a)",
        "c = broadcast_in_dim(b) shape=(4,4) broadcast_dimensions=(0)",
        "y = add(c, q)",
    ) == {"a": {"s"}}


@pytest.mark.parametrize("later", ["s", "z"])
def test_values_read_later_cost_nothing_to_keep(later: str) -> None:
    """Half as many bytes of a cast are written only where else the whole was in memory for it."""
    copied = again_in(
        "s = cumsum(z) axis=0 reverse=False",
        f"p = {PRODUCT}",
        "a: bf16[4,4] = convert_element_type(s) new_dtype=bf16",
        f"q = {PRODUCT}",
        "b: bf16[4,4] = neg(a)",
        "c = convert_element_type(b) new_dtype=f32",
        "d = add(c, q)",
        f"y = add(d, {later})",
    )
    assert copied == ({"a": {"s"}} if later == "s" else {})


def test_inputs_are_in_memory_however_large() -> None:
    """But those that are themselves computed again are not."""
    lines = (
        "a: bf16[4,4] = convert_element_type(x) new_dtype=bf16",
        f"p = {PRODUCT}",
        "b: bf16[4,4] = neg(a)",
        "c = convert_element_type(b) new_dtype=f32",
        "y = add(c, p)",
    )
    assert again_in(*lines) == {"a": {"x"}}
    assert again_in(*lines, absent="x") == {}
    assert again_in(*lines, absent="z") == {"a": {"x"}}


def test_what_a_product_reads_transposed_is_in_memory() -> None:
    """So is what is only named otherwise, twice: no reader makes it again."""
    lines = (
        "a = exp(x)",
        "t = transpose(a) permutation=(1,0)",
        "u = transpose(t) permutation=(1,0)",
        f"p = dot_general(u, z) {NUMBERS}",
        "y = add(a, p)",
    )
    assert again_in(*lines) == {}
    assert again_in(*lines, gone="a") == {}
    assert again_in(*lines[:4], "y = neg(p)", gone="a") == {}
    assert again_in(*lines[:3], f"p = {PRODUCT}", "y = add(a, p)") == {"a": {"x"}}


def test_of_an_end_that_nobody_reads_here_nothing_is_written() -> None:
    """Readers behind the program compute it again; where one is here, as what others make is."""
    assert again_in("a = exp(x)", "y = neg(z)", gone="a") == {"a": set()}
    assert again_in("a = exp(x)", "y = neg(a)", gone="a") == {"a": set()}
    assert again_in("a = exp(x)", "y = neg(z)") == {}
    lines = "a = exp(x)", "b = neg(a)", f"p = {PRODUCT}", "c = add(a, b)", "y = add(c, p)"
    assert again_in(*lines, gone="a") == {"a": {"x"}, "b": {"x"}}


def test_places_are_kernels_of_their_own() -> None:
    """What is added up over microbatches is written in the type in which it is read."""
    step = step_of(
        "a = convert_element_type(x) new_dtype=f32", "b = neg(a)", "y = mul(b, b)", of="bf16"
    )
    program = program_of(step)

    def at(*places: InstructionPlace) -> Mapping[str, Collection[str]]:
        return again(step, replace(program, places=places))

    assert at(FORWARD, FORWARD, FORWARD) == {}
    assert at(FORWARD, BACKWARD, BACKWARD) == {"a": {"x"}}
    assert at(FORWARD, FORWARD, BACKWARD) == {"b": {"x"}}
    assert at(FORWARD, BACKWARD, AFTER) == {"a": {"x"}}
    assert at(FORWARD, FORWARD, AFTER) == {}
    assert at(AFTER, AFTER, AFTER) == {}


def test_local_slices_are_recomputed_with_the_same_sharding() -> None:
    """Each device takes its half of x, and later exp of it, but not what a product reads so."""
    step = step_of("a = exp(x)", f"p = {PRODUCT}", "b = neg(a)", "y = add(b, b)")
    assert again(step, program_of(step, ("a", "b", "y"))) == {"a": {"x"}}
    step = step_of("a = exp(x)", f"p = dot_general(a, z) {NUMBERS}", "y = add(a, z)")
    assert again(step, program_of(step, ("p",))) == {}


def test_a_body_keeps_what_a_product_or_a_loop_has_written() -> None:
    """Rather than as many bytes that one kernel would write for later ones alone."""
    for does in (PRODUCT, LOOP, "cumsum(z) axis=0 reverse=False"):
        step = step_of(f"a = {does}", "y = neg(a)")
        program = program_of(step)
        inputs = {("z", WHOLE): 0}
        found = find_recomputed(
            program, inputs, [("y", WHOLE)], lambda kind, lies: kind.bytes, SIZES
        )
        assert found == ({} if "cumsum" in does else {("y", WHOLE): (("a", WHOLE),)})


def test_a_body_keeps_what_was_sent() -> None:
    """What each device had before does not make the whole of it again; its own half it does."""
    step = step_of("a = convert_element_type(x) new_dtype=f32", of="bf16")
    for half, whole in ((HALF, WHOLE), (WHOLE, HALF)):
        program = program_of(step, () if whole == WHOLE else ("a",), x=half)
        inputs = {("x", half): 2 * 16}
        found = find_recomputed(
            program, inputs, [("a", whole)], lambda kind, lies: kind.bytes, SIZES
        )
        assert found == {("a", whole): (("x", WHOLE),)}


DOES = ("exp({})", "neg({})", "add({}, {})", "dot_general({}, {}) " + NUMBERS)


def test_what_a_value_is_made_of_is_in_memory() -> None:
    """Where a stage began a kernel before all stages make what it reads, too."""
    step = step_of("a = exp(z)", "b = exp(x)", "c = neg(b)", f"p = {PRODUCT}", "y = add(c, p)")
    program = program_of(step)
    places = (FORWARD, EVERY, FORWARD, FORWARD, FORWARD)
    assert again(step, replace(program, places=places)) == {"c": {"b"}}


def test_a_product_begins_no_kernel() -> None:
    """That of the stage begins behind that of all stages, and finds b computed again."""
    step = step_of(f"p = {PRODUCT}", "b = exp(x)", "c = neg(b)", f"q = {PRODUCT}", "y = add(c, q)")
    places = (FORWARD, EVERY, FORWARD, FORWARD, FORWARD)
    assert again(step, replace(program_of(step), places=places)) == {"b": {"x"}}


@st.composite
def programs(draw: st.DrawFn) -> tuple[Step, StepProgram]:
    """Up to ten operations on what is there, each where all it reads has been made."""
    lines, places, there = [], [], {"x": 0, "z": 0}
    for at in range(draw(st.integers(4, 10))):
        does = draw(st.sampled_from(("exp({})", "exp({})", "add({}, {})", PRODUCT)))
        read = [draw(st.sampled_from([*there])) for _ in range(does.count("{}"))]
        first = max((there[one] for one in read), default=0)
        there[f"a{at}"] = draw(st.sampled_from((first, first, min(first + 1, 2))))
        lines.append(f"a{at} = {does.format(*read)}")
        places.append((EVERY, FORWARD, BACKWARD)[there[f"a{at}"]])
    step = step_of(*lines)
    return step, replace(program_of(step), places=tuple(places))


@given(programs())
def test_sources_are_in_memory(both: tuple[Step, StepProgram]) -> None:
    """What others are computed of is not itself computed again."""
    found = again(*both)
    assert found.keys().isdisjoint(source for sources in found.values() for source in sources)
