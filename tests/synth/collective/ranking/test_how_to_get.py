"""How an answer is got: only what the runtime has, in its own words."""

from __future__ import annotations

import pytest

from grammar import Goal
from hierarchies import Axis, load
from hierarchies.units import format_duration
from machines import precise
from strategies import source, striped
from synth.collective.algorithms.algorithms import Algorithm, Choice
from synth.collective.emit.conventions import IN_ORDER
from synth.collective.emit.targets import emit
from synth.collective.price.resolution import WORTH
from synth.collective.ranking.advice import rank_with_advice
from synth.collective.ranking.explanation import explain_answer
from synth.collective.ranking.how_to_get import (
    DECIDING_RATIO,
    AdviceKind,
    advise,
    explain_call,
    find_deciding_run,
)
from synth.collective.ranking.planner import answers
from synth.collective.ranking.request import Answer, DefaultComparison, Request
from synth.collective.semantics.programs import Language
from synth.measure.calibration.typical import apply_typical


def ranked(
    name: str,
    payload: int,
    k: int = 1,
    goal: Goal = Goal.ALL_REDUCE,
    choice: Choice = Choice.AUTO,
    *,
    measured: bool = False,
) -> list[Answer]:
    system = precise(name) if measured else load(name)
    request = Request(
        (Axis("data", system.devices),),
        ("data",),
        payload,
        k,
        Language(3, goal=goal),
        choice,
        stripes=False,
    )
    return list(answers(system, request).answers)


def test_one_call_by_another_algorithm_is_a_line_of_the_environment() -> None:
    """NCCL's model takes a ring, where a tree is priced as faster."""
    [answer] = ranked("dgx-a100:2", 2**18, measured=True)
    assert answer.candidate.text == "all-reduce root inside"
    assert (answer.defaults.chosen, answer.against_default) == ("ring", DefaultComparison.FASTER)
    assert advise(answer).by is AdviceKind.ENVIRONMENT
    assert advise(answer).text == "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:LL"


@pytest.mark.parametrize("name", ["dgx-a100:2", "dgx-h100:4", "tpu-v4-pod-slice:2x2x2"])
def test_a_call_is_told_how_it_comes_to_its_price(name: str) -> None:
    """Only the runtime's own choice comes without a setting; XLA takes none."""
    [answer] = ranked(name, 2**24)
    for own, prices in answer.defaults.options.items():
        said = " ".join(explain_call(prices[0], answer.defaults))
        assert ("set nothing" in said) == (prices == answer.defaults.baseline and len(prices) == 1)
        assert ("NCCL_ALGO" in said) == (own != answer.defaults.chosen and "xla" not in said)
    if advise(answer).by is AdviceKind.ENVIRONMENT:
        assert explain_call(answer.prices[0], answer.defaults)[-1].strip() == advise(answer).text


def test_several_calls_are_a_file() -> None:
    [answer] = ranked("p2-a100:4", 2**30, measured=True)
    assert advise(answer).by is AdviceKind.FILE
    assert advise(answer).text.startswith("collsynth emit --from ANSWER.json --rank 1")


@pytest.mark.parametrize("choice", [Choice.ANY, Choice.DIRECT])
def test_what_no_library_has_is_no_gain(choice: Choice) -> None:
    """All send to all at once: no library does so in an all-reduce over nodes."""
    [answer] = ranked("dgx-h100:16", 2**16, choice=choice)
    assert answer.estimate.surely_below(answer.baseline_estimate)
    assert not answer.gains
    assert advise(answer).by is AdviceKind.NOTHING
    assert "direct" in advise(answer).text


@pytest.mark.parametrize("name", ["dgx-h100:4", "mi300x:2", "tpu-v5p-slice:2", "p2-v100:2"])
@pytest.mark.parametrize("payload", [2**16, 2**24])
def test_nothing_is_priced_that_no_runtime_does(name: str, payload: int) -> None:
    """NCCL and RCCL have rings, trees and their switches; XLA on a torus has rings alone."""
    had = {Algorithm.RING, Algorithm.TREE, Algorithm.IN_NETWORK}
    had -= {Algorithm.TREE} if name.startswith("tpu") else set()
    for answer in ranked(name, payload, 5):
        steps = [price for price in answer.prices if price.algorithm]
        assert {price.algorithm for price in steps} <= had
        trees = {price.what for price in steps if price.algorithm is Algorithm.TREE}
        assert trees <= {"all-reduce"}
        assert answer.against_default is not DefaultComparison.NOT_OFFERED
        assert advise(answer).by is not AdviceKind.NOTHING


@pytest.mark.parametrize("name", ["dgx-h100:1", "dgx-a100:1", "gb200-nvl72:1", "gb200-nvl72:2"])
def test_no_tree_is_advised_for_what_is_a_chain(name: str) -> None:
    """NCCL's trees are chains inside a node (NVIDIA/nccl issues 545 and 919): 7 hops on 8 GPUs, 71
    in a rack, up and down again. By its own model a tree by LL on two racks takes 102 us."""
    for payload in (2**16, 2**24):
        [answer] = ranked(name, payload)
        assert "Tree" not in advise(answer).text.replace("NVLSTree", "")


@pytest.mark.parametrize("goal", [Goal.ALL_GATHER, Goal.REDUCE_SCATTER, Goal.ALL_TO_ALL])
def test_nothing_is_promised_that_cannot_be_handed_out(goal: Goal) -> None:
    for answer in ranked("dgx-h100:4", 2**30, 4, goal):
        if advise(answer).by is AdviceKind.FILE:
            [*_, target, to, name] = advise(answer).text.partition(";")[0].split()
            reduction, cut = answer.candidate.reduction, answer.candidate.segments
            given = source(answer.candidate.text, reduction, 2**30, cut, goal)
            assert (to, [name]) == ("-o", list(emit(target, given)))


@pytest.mark.parametrize(
    ("name", "payload", "default"),
    [
        ("gb200-nvl72:1", 2**28, "nvls"),
        ("gb200-nvl72:4", 2**28, "nvls_tree"),
        ("gb200-nvl72:4", 2**32, "nvls_tree"),
        ("tpu-v5e-slice", 2**30, "xla"),
        ("tpu-v4-pod-slice", 2**30, "xla"),
    ],
)
def test_the_runtime_does_what_it_does(name: str, payload: int, default: str) -> None:
    """Racks of NVLink reduce in their switches; XLA uses the links of all dimensions."""
    [answer] = ranked(name, payload)
    assert answer.defaults.chosen == default
    if default == "xla":
        assert answer.baseline_seconds < 1.05 * answer.bound.seconds
        assert advise(answer).by is AdviceKind.DEFAULT


@pytest.mark.parametrize(("model", "payload"), [(1, 2**24), (2, 2**24)])
def test_what_may_gain_is_worth_a_run_that_decides(model: int, payload: int) -> None:
    """Where all devices are one group nccl-tests decide; else the file, in the groups there are."""
    system = apply_typical(load("dgx-b200:4" if model == 1 else "dgx-h100:4"))
    axes = (Axis("data", 32 // model), Axis("model", model))
    request = Request(axes, ("data",), payload, 3, Language(3), stripes=False)
    found = rank_with_advice(system, request).answers
    worth = [(one, what) for one in found if (what := find_deciding_run(one))]
    assert worth
    for answer, what in worth:
        assert answer.against_default is DefaultComparison.SAME
        assert what.speedup == pytest.approx(answer.baseline_seconds / answer.runtime_seconds)
        assert what.between[0] <= 1 < 1 + WORTH < what.speedup < what.between[1]
        assert advise(answer).by is AdviceKind.DEFAULT
        assert "until" in advise(answer).text
        tests = [one for one in what.commands if "all_reduce_perf" in one]
        if what.advice.by is AdviceKind.ENVIRONMENT:
            if tests:
                assert all(" -b 16M -e 16M -g 1 " in one for one in tests)
                told = " -x ".join(what.advice.text.replace("allreduce:", "").split())
                assert tests[0].startswith("mpirun -np 32 --map-by ppr:8:node all_reduce_perf")
                assert tests[1].startswith(
                    f"mpirun -np 32 --map-by ppr:8:node -x {told} all_reduce_perf"
                )
            else:
                assert what.commands[-1].startswith(what.advice.text)
                assert str(answer.payload_bytes) in what.commands[-1]
            assert bool(tests) == (model == 1)
        else:
            assert not tests
            assert what.commands[0] == what.advice.text.partition("; ")[0]
        assert bool(tests) != ("torchrun --nnodes 4 --nproc-per-node 8 " in what.commands[-1])
        assert "..." not in " ".join(what.commands)
        assert f"{what.speedup:.2f} times" in what.said
        assert format_duration(what.default_seconds / DECIDING_RATIO) in what.decides
        assert "three times in turn and compare medians" in what.decides


def test_lines_set_what_the_file_that_they_start_needs() -> None:
    """Several groups at once: the head of the file says what must be set, its own line and ours."""
    system = apply_typical(load("dgx-a100:2"))
    request = Request((Axis("data", 16),), ("data",), 2**26, 8, Language(3))
    seen = set()
    for answer in rank_with_advice(system, request).answers:
        if answer.plain:
            continue
        parts = [one.part for one in answer.stripes]
        cut = [(one.program, one.size_bytes, one.segments) for one in parts]
        [text] = map(str, emit("torch", striped(cut, answer.candidate.reduction)).values())
        needs = IN_ORDER in text
        assert needs == (len(parts) > 1 or parts[0].segments > 1)
        assert (f"{IN_ORDER} torchrun " in text) == needs
        if found := find_deciding_run(answer):
            lines = [one for one in found.commands if "torchrun " in one]
            assert all((f"{IN_ORDER} torchrun " in one) == needs for one in lines)
            assert (f"set {IN_ORDER}" in found.advice.text) == needs
            seen.add(needs)
    assert True in seen


def test_what_is_told_or_near_or_the_default_itself_is_worth_no_run() -> None:
    told, near, itself = (
        ranked("p2-a100:4", 2**20)[0],
        ranked("dgx-h100:4", 2**30)[0],
        ranked("dgx-h100:1", 2**30)[0],
    )
    assert (told.against_default, near.against_default) == (
        DefaultComparison.FASTER,
        DefaultComparison.SAME,
    )
    assert near.runtime_seconds < near.baseline_seconds
    assert itself.runtime_seconds == itself.baseline_seconds
    assert not any(map(find_deciding_run, (told, near, itself)))


@pytest.mark.parametrize("name", ["tpu-v5e-slice:4x4", "tpu-v5p-slice:2x2x2", "aws-trn2:2"])
@pytest.mark.parametrize("goal", [Goal.ALL_REDUCE, Goal.ALL_GATHER, Goal.REDUCE, Goal.ALL_TO_ALL])
def test_where_nccl_does_not_run_nothing_is_said_in_its_words(name: str, goal: Goal) -> None:
    """No variable, no test of NVIDIA's, no file for PyTorch, whose groups are NCCL's."""
    for choice in (Choice.AUTO, Choice.TREE):
        for answer in ranked(name, 2**24, 3, goal, choice):
            worth, how = find_deciding_run(answer), advise(answer)
            said = [how.text, *explain_answer(answer), *(worth.commands if worth else ())]
            said += [
                line for price in answer.prices for line in explain_call(price, answer.defaults)
            ]
            assert how.by is not AdviceKind.ENVIRONMENT
            for words in ("NCCL_", "_perf", "torch"):
                assert words not in " ".join(said)
            if how.by is AdviceKind.FILE or worth:
                reduction = answer.candidate.reduction
                assert emit("jax", source(answer.candidate.text, reduction, 2**24, goal=goal))
