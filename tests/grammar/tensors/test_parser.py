"""The text of a step: what is written is read again, and carets under mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import traced_steps
from exhaustive import examples
from grammar.tensors import parser
from grammar.tensors.operations import (
    Graph,
    Literal,
    Operand,
    Operation,
    ShardedStep,
    Step,
    Value,
)
from grammar.tensors.parser import parse_either, parse_sharded, parse_step, parse_type
from grammar.tensors.sharding import ReductionKind, Sharding, Type, check_type, shardings
from hierarchies import InputError

Draw = Callable[[st.SearchStrategy[Any]], Any]

DTYPES = ("f32", "bf16", "i32", "bool", "key", "f8_e4m3fn")
NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_./-]{0,6}\Z").filter(lambda name: name not in WORDS)
WORDS = ("in", "out", "step")
TYPES = st.builds(
    Type, st.sampled_from(DTYPES), st.lists(st.integers(0, 99), max_size=3).map(tuple)
)
INTEGERS = st.integers(-(2**63), 2**64)
NUMBERS = st.floats() | INTEGERS | st.booleans()
LITERALS = st.builds(
    Literal, NUMBERS.map(lambda x: math.nan if x != x else x), st.sampled_from(DTYPES)
)
PARAMETERS = st.recursive(
    INTEGERS | st.booleans() | st.floats(allow_nan=False) | st.text() | NAMES,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=2).map(lambda d: tuple(d.items()))
    ),
    max_leaves=6,
)
LINES = st.just("") | st.from_regex(r"\A[a-z]{1,5}\.py:[0-9]{1,3}\Z")


@st.composite
def graphs(draw: Draw, fixed: tuple[Type, ...] = (), depth: int = 1) -> Graph:
    """A graph whose first inputs have these types; its loops get inputs of their own."""
    names = iter(draw(st.lists(NAMES, min_size=40, max_size=40, unique=True)))
    inputs = [Value(next(names), one) for one in (*fixed, *draw(st.lists(TYPES, max_size=2)))]
    operations = []
    known = list(inputs)
    for _ in range(draw(st.integers(0, 3))):
        if depth and draw(st.booleans()):
            operands, results, told, body = draw(loops(names, depth - 1))
            inputs += operands
            primitive = "scan"
        else:
            body, told = None, tuple(draw(st.dictionaries(NAMES, PARAMETERS, max_size=2)).items())
            one: Any = st.sampled_from(known) | LITERALS if known else LITERALS
            operands = tuple(draw(st.lists(one, max_size=3)))
            results = tuple(
                Value(next(names), t) for t in draw(st.lists(TYPES, min_size=1, max_size=2))
            )
            primitive = draw(NAMES.filter(lambda name: name != "scan"))
        operations.append(Operation(primitive, operands, results, told, body, draw(LINES)))
        known += (*(o for o in operands if isinstance(o, Value) and o not in known), *results)
    some: Any = st.sampled_from(known) | LITERALS if known else LITERALS
    return Graph(tuple(inputs), tuple(operations), tuple(draw(st.lists(some, max_size=3))))


@st.composite
def loops(draw: Draw, names: Any, depth: int) -> Any:
    """Operands, results, parameters and body of a loop; what it carries it gives on as it is."""
    consts, carried = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    types = tuple(draw(st.lists(TYPES, min_size=consts + carried, max_size=consts + carried + 1)))
    body = draw(graphs(types, depth))
    length = draw(st.integers(0, 9))
    kept = consts + carried
    outside = [
        one.type if at < kept else Type(one.type.dtype, (length, *one.type.shape))
        for at, one in enumerate(body.inputs)
    ]
    stacked = tuple(o for o in body.outputs)
    outputs: tuple[Operand, ...] = (*body.inputs[consts:kept], *stacked)
    results = [one.type for one in body.inputs[consts:kept]]
    for one in stacked:
        inner = one.type if isinstance(one, Value) else Type(one.dtype, ())
        results.append(Type(inner.dtype, (length, *inner.shape)))
    if not results:
        outputs, results = (Literal(0, "i32"),), [Type("i32", (length,))]
    told = (("length", length), ("num_consts", consts), ("num_carry", carried))
    operands = tuple(Value(next(names), one) for one in outside)
    made = tuple(Value(next(names), one) for one in results)
    return operands, made, told, Graph(body.inputs, body.operations, outputs)


@st.composite
def steps(draw: Draw) -> Step:
    graph = draw(graphs())
    count = len(graph.inputs)
    role = st.sampled_from(("parameter", "moment", "batch", "state", "cache"))
    updates, taken = [], set()
    for out, operand in enumerate(graph.outputs):
        for place, value in enumerate(graph.inputs):
            if isinstance(operand, Value) and operand.type == value.type and place not in taken:
                updates.append((out, place))
                taken.add(place)
                break
    return Step(
        name=draw(NAMES | st.text(max_size=5)),
        graph=graph,
        roles=tuple(draw(st.lists(role, min_size=count, max_size=count))),
        labels=tuple(draw(st.lists(NAMES | st.text(), min_size=count, max_size=count))),
        updates=tuple(draw(st.just(updates) | st.just([]))),
    )


def lines(step: Step) -> list[str]:
    return [one.line for one in step.graph.everywhere()]


@examples(10, 300)
@given(steps())
def test_written_files_are_read_again(step: Step) -> None:
    read = parse_step(str(step))
    assert read == step
    assert str(read) == str(step)
    assert lines(read) == lines(step)


AXES = {"data": 2, "model": 3}


@st.composite
def sharded_steps(draw: Draw) -> ShardedStep:
    """A step each of whose values lies in some way that its shape can."""
    step = draw(steps())

    def lying(graph: Graph) -> Graph:
        known: dict[str, Value] = {}

        def made(value: Value) -> Value:
            every = shardings(len(value.type.shape), tuple(AXES), tuple(ReductionKind))
            some = st.sampled_from([one for one in every if fits(value.type, one)])
            known[value.name] = Value(value.name, value.type, draw(some))
            return known[value.name]

        def read(operand: Operand) -> Operand:
            return known[operand.name] if isinstance(operand, Value) else operand

        inputs = tuple(map(made, graph.inputs))
        operations = tuple(
            Operation(
                one.primitive,
                tuple(map(read, one.operands)),
                tuple(map(made, one.results)),
                one.parameters,
                None if one.body is None else lying(one.body),
            )
            for one in graph.operations
        )
        return Graph(inputs, operations, tuple(map(read, graph.outputs)))

    whole = Step(step.name, lying(step.graph), step.roles, step.labels)
    return ShardedStep(tuple(AXES.items()), whole)


def fits(type_: Type, sharding: Sharding) -> bool:
    try:
        check_type(type_, sharding, AXES)
    except InputError:
        return False
    return True


@examples(10, 100)
@given(sharded_steps())
def test_a_sharded_step_is_read_again(step: ShardedStep) -> None:
    read = parse_sharded(str(step))
    assert read == step
    assert str(read) == str(step)
    assert parse_either(str(step)) == step


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize("name", traced_steps.TINY)
def test_the_zoo_is_read_again(name: str, unrolled: bool) -> None:
    step = traced_steps.step(name, unrolled=unrolled)
    read = parse_step(str(step))
    assert read == step
    assert lines(read) == lines(step)
    assert all(lines(read))


def test_the_text_of_96_layers_is_no_longer_than_that_of_2() -> None:
    two, many = (
        str(traced_steps.step("gpt2-tiny", (("layers", n),), remat=True)).splitlines()
        for n in (2, 96)
    )
    assert len(two) == len(many)
    assert [one.replace("96", "2") for one in many] == [one.replace("96", "2") for one in two]


@given(st.data(), st.integers(0, 3))
def test_types_are_read_as_they_are_spelled(data: st.DataObject, rank: int) -> None:
    every = list(shardings(rank, ("a", "b-c"), tuple(ReductionKind)))
    sharding = data.draw(st.sampled_from(every))
    shape = tuple(data.draw(st.lists(st.integers(0, 999), min_size=rank, max_size=rank)))
    type_ = Type("bf16", shape)
    assert parse_type(type_.sharded(sharding)) == (type_, sharding)


def test_a_type_as_the_design_spells_it() -> None:
    text = "f32[8@data,16,64@(seq,model)]{sum:expert}"
    type_, sharding = parse_type(text)
    assert sharding.dimensions == (("data",), (), ("seq", "model"))
    assert sharding.partial == ((ReductionKind.SUM, "expert"),)
    assert type_.sharded(sharding) == text


def test_layout_and_comments_do_not_matter() -> None:
    step = parse_step("step a\nin x: f32[2] batch\nv: f32[2] = neg(x) k=1\nout v -> x")
    spaced = "\n # why\n step  a # name\r\n\nin  x : f32[2]\tbatch\n  v:f32[2]=neg( x )k = 1\n"
    spaced += "\nout  v ->x\n"
    assert parse_step(spaced) == step


def test_numbers_of_one_value_and_two_kinds_are_two() -> None:
    assert len({Literal(one, "f32") for one in (1, 1.0, True, 0.0, -0.0, math.nan)}) == 6


STEP = """step small
in x: f32[3,2] parameter
in y: f32[2] batch
v0: f32[3,2] = add(x, 0.5:f32)
v3: f32[2], v4: f32[3,2] = scan(y, x) length=3 num_carry=1 num_consts=0 {
  in v1: f32[2]
  in v2: f32[2]
  out v1
  out v2
}
out v0 -> x
out v3
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("add(x, 0.5:f32)", "add(z, 0.5:f32)", "line 4, column 20: no value z before this line"),
        ("add(x, 0.5:f32)", "add(v3, 0.5:f32)", "no value v3"),
        ("out v1", "out x", "no value x"),
        ("v0: f32[3,2]", "x: f32[3,2]", "x is already the name of a value"),
        ("0.5:f32", "0.5:float", "unknown element type 'float'"),
        ("f32[3,2] parameter", "f33[3,2] parameter", "unknown element type 'f33'"),
        ("f32[3,2] parameter", f"f32[{','.join('2' * 65)}] parameter", "65 dimensions"),
        ("f32[3,2] parameter", f"f32[{','.join('4' * 32)}] parameter", "so many elements"),
        ("f32[3,2] parameter", f"f32[0,{2**59},32] parameter", "so many elements"),
        ("f32[3,2] parameter", "f32[3,2]", "give the role of this input"),
        ("f32[3,2] parameter", "f32[3,] parameter", "line 2, column 7"),
        ("in v1: f32[2]", "in v1: f32[2] batch", "the input of a body has no role"),
        ("in v1: f32[2]", "in v1: f32[3]", "where the body has f32[3]"),
        ("in v2: f32[2]", "in v2: f32[3]", "where the body has f32[3,3]"),
        ("  in v2: f32[2]\n  out v1\n  out v2", "  out v1", "2 values for the 1 inputs"),
        ("  out v2\n", "", "2 results of the 1 outputs"),
        ("length=3", "length=4", "f32[3,2] where the body has f32[4,2]"),
        ("length=3", "length=x", "a loop gives its length"),
        ("length=3", f"length={2**63 + 1}", "loops of so many turns"),
        ("length=3 ", "", "a loop gives its length"),
        ("num_carry=1", "num_carry=-1", "a loop gives its length"),
        ("num_carry=1", "num_carry=7", "2 values for"),
        ("length=3", "length=3 length=3", "length is given twice"),
        ("scan(", "scam(", "scam with a body"),
        ("add(", "scan(", "scan without a body"),
        ("out v0 -> x", "out v3 -> x", "x is of another type"),
        ("out v0 -> x", "out v0 -> z", "z is not an input of the step"),
        ("out v3", "out v0 -> x", "x is updated twice"),
        ("out v3", "out v3\nv9: f32[] = a()", "outputs come at the end"),
        ("out v0", "in z: f32[] batch\nout v0", "inputs come before everything else"),
        ("step small", "small", "expected one of: step"),
        ("= add", "add", "expected one of"),
        ("x, 0.5:f32)", "x, 0.5:f32", "','; ')'"),
        ("}", "", "line 13, column 1"),
    ],
)
def test_mistakes_are_shown_with_line_and_caret(old: str, new: str, said: str) -> None:
    assert parse_step(STEP)
    assert old in STEP
    with pytest.raises(InputError) as refused:
        parse_step(STEP.replace(old, new, 1), where="my.step")
    assert said in str(refused.value)
    assert "^" in str(refused.value)
    assert str(refused.value).startswith("my.step, line ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"step a\nin x: f32[{'9' * 5000}] batch\n", "line 2"),
        (f"step a\nv: f32[] = neg({'9' * 5000}:f32)\n", "line 2"),
        (f"step a\nv: f32[] = neg() k={'9' * 5000}\n", "line 2"),
        (f"step a\nv: f32[] = neg() k={'(' * 5000}{')' * 5000}\n", "16 lists in each other"),
        (f"step a\nv: f32[] = neg() k={'{a=' * 500}1{'}' * 500}\n", "16 lists in each other"),
        ("step a\n" + "v: f32[] = scan() {\n" * 500 + "}\n" * 500, "16 loops in each other"),
    ],
)
def test_texts_without_measure_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_step(text)
    assert said in str(refused.value)


SCRAPS = (
    "step",
    "in",
    "out",
    "x",
    ":",
    "f32[2]",
    "=",
    "(",
    ")",
    "{",
    "}",
    "\n",
    ",",
    "->",
    "1",
    "@a",
)


@given(st.lists(st.sampled_from(SCRAPS)).map(" ".join) | st.text())
def test_any_text_is_a_step_or_refused(text: str) -> None:
    with suppress(InputError):
        parse_step(text)


@given(st.sampled_from(["f32[", "1", "@a", "(a,b)", "]", "{sum:", "}", ",", " "]).map(str))
def test_any_type_is_one_or_refused(scrap: str) -> None:
    for text in (scrap, f"f32[2{scrap}]", f"f32[2]{scrap}", f"f32[2@a]{{sum:{scrap}}}"):
        with suppress(InputError):
            parse_type(text)


SHARDED = """step small over data=2 model=4
in w: f32[4@model,2] parameter
in x: f32[8@data,4@model] batch
v0: f32[8@data,2]{sum:model} = dot_general(x, w) dimension_numbers=(((1),(0)),((),()))
v0.1: f32[8@data,2] = redistribute(v0) by=all-reduce over=(model)
v1: f32[4@model,2] = neg(w)
v1.1: f32[4,2] = redistribute(v1) by=all-gather over=(model)
out v1 -> w
out v0.1
"""


def test_a_sharded_step_as_the_docs_spell_it() -> None:
    step = parse_sharded(SHARDED)
    assert str(step) == SHARDED
    assert step.sizes == {"data": 2, "model": 4}
    partial = step.step.graph.values["v0"].sharding
    assert partial is not None
    assert partial.partial == ((ReductionKind.SUM, "model"),)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("f32[4@model,2] p", "f32[4@model,2@model] p", "line 2, column 7: axis 'model' occurs 2"),
        ("f32[4@model,2] p", "f32[4@modal,2] p", "no axis 'modal'"),
        ("{sum:model}", "{sum:data}", "axis 'data' occurs 2 times"),
        ("{sum:model}", "{sun:model}", "sum, max or min"),
        ("data=2", "data=3", "data=3 cuts dimension 0 of f32[8,4] in 3 parts, of 8 elements"),
        ("model=4", "data=4", "line 1, column 24: axis data is said twice"),
        ("model=4", "model=0", "an axis of size 0"),
        ("model=4", "mo/el=4", "mo/el is not the name of an axis"),
        ("out v1 -> w", "out v1.1 -> w", "w has another sharding: w: f32[4@model,2] out v1.1"),
        (" over data=2 model=4", " over", "expected one of: a name"),
    ],
)
def test_mistakes_in_sharded_steps(old: str, new: str, said: str) -> None:
    assert old in SHARDED
    with pytest.raises(InputError) as refused:
        parse_sharded(SHARDED.replace(old, new, 1))
    assert said in " ".join(str(refused.value).split())


def test_a_step_is_sharded_or_not() -> None:
    plain = "step a\nin x: f32[2] batch\nout x\n"
    with pytest.raises(InputError, match="this step is sharded"):
        parse_step(SHARDED)
    with pytest.raises(InputError, match="this step is not sharded"):
        parse_sharded(plain)
    for wrong, said in (
        (plain.replace("[2]", "[2@data]"), "only sharded steps"),
        (plain.replace("out x", "v: f32[2] = redistribute(x)\nout v"), "of sharded steps only"),
    ):
        with pytest.raises(InputError, match=said):
            parse_either(wrong)


LONG = """step "a#b {"
in x: f32[3,2] parameter "in y: f32[] { # in x: f32[]"
in y: f32[] batch
v0: f32[2], v1: f32[3,2] = scan(y, x) length=3 num_carry=1 num_consts=0 name="# {" { # one {
  in v0: f32[]
  in v1: f32[2]
  v2: f32[] = scan(v0) length=2 num_carry=1 num_consts=0 {
    in v0: f32[]
    out v0
  } @a.py#b
  out v2
  out v1
} # }
v2: f32[3,2] = add(v1, 0.5:f32) a={b=(1),c="}"} @a.py:3 # {
out v2
"""


def test_a_long_step_is_scanned_for_names_that_represent_two_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the parser itself says, with the same words: also of names in bodies, which are theirs."""
    text = LONG.replace("f32[2], v1", "f32[], v1")
    found = parse_step(text)
    for length in (1, 40, 200, 10**6):
        monkeypatch.setattr(parser, "BEGINNING", length)
        assert parse_step(text) == found
    for old, new in (("v2: f32[3,2]", "x: f32[3,2]"), ("in v1", "in v0"), (", v1:", ", v0:")):
        said = []
        for length in (1, 10**6):
            monkeypatch.setattr(parser, "BEGINNING", length)
            with pytest.raises(InputError, match="already the name of a value") as refused:
                parse_step(text.replace(old, new, 1))
            said.append(str(refused.value))
        assert said[0] == said[1]
