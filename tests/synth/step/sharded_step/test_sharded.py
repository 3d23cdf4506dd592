"""Sharded steps: nothing is lost or added, what is held and sent is what laws say."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

import traced_steps
from grammar.tensors.operations import ShardedStep, Step
from grammar.tensors.parser import parse_sharded, parse_step
from hierarchies import InputError
from synth.step.redistribution import MoveKind
from synth.step.sharded_step import (
    check,
    check_known,
    find_gradients,
    list_shares,
    list_step_moves,
    list_step_requests,
    local_moves,
    to_device_step,
    unshard,
    unsharded_share,
    write_sharded_step,
)
from synth.step.sharding import (
    LocalOperation,
    RedistributedValue,
    StepProgram,
    apply,
    parse_recipe,
    plan_of,
)
from synth.step.work import length_of, work_of

FUZZED = 10
MUTANTS = 12
DATA = "data=2; batch over data"
MEGATRON = "tensor=2; weights over tensor as Megatron"
BOTH = "data=2 tensor=2; batch over data; weights over tensor as Megatron"
CASES = [(name, DATA) for name in traced_steps.TINY]
CASES += [("gpt2-tiny", f"{BOTH}; zero={zero}") for zero in range(4)]
CASES += [
    ("llama3-tiny", MEGATRON),
    ("lstm-tiny", f"{DATA}; zero=3"),
    ("mlp-tiny", f"{DATA}; zero=2"),
]


@cache
def made(name: str, text: str, unrolled: bool = False) -> tuple[Step, StepProgram, ShardedStep]:
    step = traced_steps.step(name, unrolled=unrolled)
    plan = plan_of(step, parse_recipe(text))
    program = apply(step, plan)
    return step, program, write_sharded_step(step, plan, program)


def sharded(name: str, text: str) -> ShardedStep:
    return made(name, text)[2]


@pytest.mark.parametrize(("name", "text"), CASES)
def test_a_plan_puts_in_types_and_redistributions_and_nothing_else(name: str, text: str) -> None:
    step, program, found = made(name, text)
    assert unshard(found) == step
    assert parse_sharded(str(found)) == found
    check(found)
    moves = Counter(move.how for one in program.moved() for move in one.path.moves)
    assert Counter(str(found).split().count(f"by={how.value}") for how in MoveKind) == Counter(
        moves[how] for how in MoveKind
    )


@pytest.mark.parametrize(("name", "text"), CASES)
def test_all_moves_are_counted_as_often_as_loops_go_round(name: str, text: str) -> None:
    _, program, found = made(name, text)
    wanted: Counter[str] = Counter()
    for times, one in moved(program):
        for move in one.path.moves:
            wanted[f"{one.value.type}: {move}"] += times
    counted: Counter[str] = Counter()
    for each in list_step_moves(found):
        counted[f"{each.value.type}: {each.move}"] += each.times
    assert counted == wanted
    assert (
        sum(one.times for one in list_step_requests(found)) + local_moves(found).total()
        == wanted.total()
    )


def moved(program: StepProgram, times: int = 1) -> Iterator[tuple[int, RedistributedValue]]:
    for one in program.instructions:
        match one:
            case RedistributedValue():
                yield times, one
            case LocalOperation(operation, _, StepProgram() as body):
                yield from moved(body, times * length_of(operation))


@pytest.mark.parametrize("name", ["mlp-tiny", "gpt2-tiny", "lstm-tiny", "vit-tiny"])
def test_a_loop_and_its_layers_one_after_the_other_send_as_many_bytes(name: str) -> None:
    """In fewer requests: the gradients of all layers are one value."""
    loop, layers = (made(name, DATA, unrolled)[2] for unrolled in (False, True))
    total = [
        sum(one.least_bytes * one.times for one in list_step_requests(found))
        for found in (loop, layers)
    ]
    assert total[0] == total[1]


@pytest.mark.parametrize("parts", [2, 4])
def test_bytes_of_a_parameter_are_those_of_the_paper(parts: int) -> None:
    """ZeRO in float32, all of it: 16, 8 + 8/N, 4 + 12/N, 16/N; design of the step, section 6."""
    wanted = (16, 8 + 8 / parts, 4 + 12 / parts, 16 / parts)
    for zero, each in enumerate(wanted):
        found = sharded("mlp-tiny", f"data={parts}; batch over data; zero={zero}")
        whole, [device] = unsharded_share(found).held, [one.held for one in list_shares(found)]
        parameters = whole.parameter / 4
        assert whole.parameter + whole.gradient + whole.moment == 16 * parameters
        assert device.parameter + device.gradient + device.moment == each * parameters
        assert device.batch == whole.batch / parts


@pytest.mark.parametrize("name", traced_steps.TINY)
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_every_parameter_has_its_gradient(name: str, optimizer: str) -> None:
    step = traced_steps.step(name, optimizer=optimizer)
    plan = plan_of(step, parse_recipe(DATA))
    found = write_sharded_step(step, plan, apply(step, plan))
    types = [
        str(value.type)
        for value, role in zip(step.graph.inputs, step.roles, strict=True)
        if role == "parameter"
    ]
    assert sorted(str(one.type) for one in find_gradients(found.step)) == sorted(types)
    requests = [one for one in list_step_requests(found) if one.how is MoveKind.ALL_REDUCE]
    meant = Counter(m.meaning.label for one in requests for m in one.moved)
    wanted = {
        label for label, role in zip(step.labels, step.roles, strict=True) if role == "parameter"
    }
    if name not in (
        "resnet-tiny",
        "bert-tiny",
        "dropless-tiny",
    ):  # sum over the batch elsewhere, too
        assert meant == Counter(wanted)
        assert {m.meaning.role for one in requests for m in one.moved} == {"gradient"}


def test_replicas_that_normalise_by_their_own_samples_sum_nothing_but_gradients() -> None:
    """Groups of a batch lie on the devices whole, forward and backward."""

    def sent(groups: int) -> Counter[str]:
        step = traced_steps.step("resnet-tiny", (("groups", groups),), "sgd")
        plan = plan_of(step, parse_recipe(DATA))
        requests = list_step_requests(write_sharded_step(step, plan, apply(step, plan)))
        return Counter(m.meaning.role for one in requests for m in one.moved)

    parameters = len(traced_steps.step("resnet-tiny", optimizer="sgd").updates)
    assert sent(2) == {"gradient": parameters}
    assert sent(1).total() > 2 * parameters


def test_operations_of_a_device() -> None:
    """All products of data parallelism are shared; Megatron leaves out what it replicates."""

    def products(step: Step) -> int:
        return sum(one.flops for one in work_of(step) if one.kind == "products")

    for name in ("mlp-tiny", "gpt2-tiny", "lstm-tiny"):
        step, _, found = made(name, DATA)
        assert products(to_device_step(found)) * 2 == products(step)
    step, _, found = made("gpt2-tiny", MEGATRON)
    logits = 3 * 2 * 4 * 16 * 32 * 64
    assert (products(to_device_step(found)) - logits) * 2 == products(step) - logits


def test_bytes_of_a_request_follow_the_design() -> None:
    """All of ``b`` bytes: 2(n-1)/n b for an all-reduce, (n-1) b for a gather of b."""
    found = sharded("mlp-tiny", "data=4; batch over data; zero=1")
    for one in list_step_requests(found):
        size = one.moved[0].value.type.bytes
        assert one.size_bytes == size
        share = {MoveKind.ALL_REDUCE: 2 * 3 / 4, MoveKind.ALL_GATHER: 3 / 4}[one.how]
        assert one.least_bytes == share * size


# -- what is written by hand

HAND = """step small over data=2 model=2
in w: f32[4@model,2] parameter
in x: f32[8@data,4@model] batch
v0: f32[8@data,2]{sum:model} = dot_general(x, w) dimension_numbers=(((1),(0)),((),())) @own.py:7
v1: f32[8@data,2] = redistribute(v0) by=all-reduce over=(model)
v2: f32[8@data,2] = sqrt(v1) @own.py:8
out v2
"""
WRONG = {
    "a partial sum where it may not be": (
        ("sqrt(v1)", "sqrt(v0)", "own.py:8: sqrt cannot take [sum] to [R] along axis 'model'"),
        ("v2: f32[8@data,2] = sqrt(v1)", "v2: f32[8@data,2]{sum:model} = sqrt(v0)", "sqrt cannot"),
    ),
    "what does not lie so": (
        ("f32[8@data,4@model]", "f32[8@data,4]", "own.py:7: dot_general cannot take"),
        ("v2: f32[8@data,2]", "v2: f32[8,2@data]", "own.py:8: sqrt cannot take [0] to [1]"),
    ),
    "a redistribution that is none": (
        ("by=all-reduce", "by=all-gather", "all-gather over model does not turn v0"),
        ("by=all-reduce", "by=all-recude", "unknown move 'all-recude'"),
        ("over=(model)", "over=(data)", "all-reduce over data does not turn v0"),
        ("over=(model)", "over=model", "a malformed redistribution"),
        (" over=(model)", "", "a malformed redistribution"),
        ("redistribute(v0)", "redistribute(v0, v0)", "a malformed redistribution"),
        ("v1: f32[8@data,2] =", "v1: bf16[8@data,2] =", "a malformed redistribution"),
    ),
    "what JAX has not": (
        ("sqrt", "sqroot", "own.py:8: no sharding rules for the primitive 'sqroot'"),
        (
            " dimension_numbers=(((1),(0)),((),()))",
            "",
            "dot_general has no parameter 'dimension_numbers'",
        ),
        (
            "(((1),(0)),((),()))",
            "(((7),(0)),((),()))",
            "dot_general does not accept these operands",
        ),
    ),
}


def test_hand_written_cases_are_correct() -> None:
    check(parse_sharded(HAND))


@pytest.mark.parametrize("what", WRONG)
def test_hand_made_mistakes_are_refused(what: str) -> None:
    for old, new, said in WRONG[what]:
        assert old in HAND
        with pytest.raises(InputError) as refused:
            check(parse_sharded(HAND.replace(old, new, 1)))
        assert said in str(refused.value)


def test_orders_of_axes_that_differ() -> None:
    text = """step small over a=2 b=2
in x: f32[8,4@(a,b)] batch
in w: f32[4@(b,a),2] parameter
v0: f32[8,2]{sum:(a,b)} = dot_general(x, w) dimension_numbers=(((1),(0)),((),())) @own.py:7
out v0
"""
    with pytest.raises(InputError, match=r"own.py:7: .*'contracting 0' cut in different orders"):
        check(parse_sharded(text))
    check(parse_sharded(text.replace("(b,a)", "(a,b)")))


LOOP = """step loop over data=2
in x: f32[8@data] batch
in stack: f32[3,8@data] batch
v3: f32[8@data], v4: f32[3,8@data] = scan(x, stack) length=3 num_carry=1 num_consts=0 {
  in v1: f32[8@data]
  in v2: f32[8@data]
  v5: f32[8@data] = add(v1, v2)
  out v5
  out v2
}
out v3
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x: f32[8@data]", "x: f32[8]"),
        ("stack: f32[3,8@data]", "stack: f32[3,8]"),
        ("v4: f32[3,8@data]", "v4: f32[3,8]"),
        ("v3: f32[8@data]", "v3: f32[8]"),
        ("out v5", "v6: f32[8] = redistribute(v5) by=all-gather over=(data)\n  out v6"),
    ],
)
def test_carried_values_of_a_loop_keep_their_sharding(old: str, new: str) -> None:
    check(parse_sharded(LOOP))
    with pytest.raises(InputError, match="where the body has"):
        check(parse_sharded(LOOP.replace(old, new, 1)))


@pytest.mark.parametrize(("name", "text"), [("mlp-tiny", f"{DATA}; zero=1"), ("lstm-tiny", DATA)])
def test_a_type_that_is_changed_is_refused(name: str, text: str) -> None:
    """Mutants of a right text: an axis taken away from one value, a move that is left out."""
    whole, draw = str(sharded(name, text)), random.Random(0)
    lines = whole.splitlines()
    caught = tried = 0
    for at in draw.sample(range(len(lines)), len(lines)):
        new = re.sub(r"@\w+", "", lines[at], count=1)
        if "redistribute" in lines[at]:
            made_of = re.search(r"redistribute\((\S+)\)", lines[at])
            result = lines[at].split(":")[0].strip()
            assert made_of is not None
            mutant = "\n".join(lines[:at] + lines[at + 1 :])
            mutant = re.sub(rf"(?<![\w.]){re.escape(result)}(?![\w./])", made_of[1], mutant)
        elif new != lines[at] and re.match(r" *v", lines[at]) and "= scan(" not in new:
            mutant = "\n".join([*lines[:at], new, *lines[at + 1 :]])
        else:
            continue
        tried += 1
        with pytest.raises(InputError):
            check(parse_sharded(mutant))
        caught += 1
        if tried == MUTANTS:
            break
    assert caught == tried == MUTANTS


NUMBERS = re.compile(r"(?<=[\[(,=])-?\d+(?=[\]),@ ])")
WORDS = re.compile(r"(?<= )[a-z_]+(?=[(=])")


@pytest.mark.parametrize("name", ["mlp-tiny", "lstm-tiny"])
def test_a_text_with_other_numbers_and_words_is_taken_or_refused(name: str) -> None:
    """Nobody's text may be a bug of ours: what cannot be is an InputError."""
    text, draw = str(traced_steps.step(name)), random.Random(1)
    words = sorted(set(WORDS.findall(text)))
    recipe = parse_recipe("data=2; batch over data; zero=1")
    refused = 0
    for _ in range(FUZZED):
        pattern, others = draw.choice(((NUMBERS, ["0", "1", "-1", "3", "99"]), (WORDS, words)))
        place = draw.choice(list(pattern.finditer(text)))
        mutant = text[: place.start()] + draw.choice(others) + text[place.end() :]
        try:
            step = parse_step(mutant)
            check_known(step)
            plan = plan_of(step, recipe)
            list_step_requests(write_sharded_step(step, plan, apply(step, plan)))
        except InputError:
            refused += 1
    assert 0 < refused < FUZZED
