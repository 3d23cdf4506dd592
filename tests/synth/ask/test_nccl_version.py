"""The version of NCCL in questions and answers: stated, read from logs, or assumed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hierarchies import InputError
from hierarchies.files.loading import parse_description
from hierarchies.units import format_duration
from log_writer import Written, text
from machines import precise_text
from plain_text import printed
from synth.ask.answers.measured import CalibratedReply, DoctorReply
from synth.ask.answers.ranked import RankingReply
from synth.ask.outputs import EmitQuestion
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.collective.algorithms.nccl_versions import KNOWN, version_of
from synth.collective.ranking.request import Watcher
from synth.show.report.details import machine, no_code_advice
from synth.show.terminal.table import TABLES
from synth.show.terminal.verdict import verdict

PAIRS: dict[str, Any] = {
    "system": "dgx-h100:4",
    "axes": {"data": 8, "model": 4},
    "reduce": ["data"],
    "placement": [[4, 2], [1, 4]],
    "bytes": "64MiB",
    "max_steps": 1,
    "k": 1,
}
"""Two GPUs of each of four nodes in a communicator."""
PLAIN = "all-reduce root inside"


def ask(verb: str, **given: Any) -> Any:
    question = parse_question(VERBS[verb].question, given)
    return judge(verb).validate_python(VERBS[verb].answer(question, Watcher()).body)


@pytest.mark.parametrize(
    ("system", "has"), [("aws-p5:2", True), ("aws-p4d:2", False), ("dgx-h100:2", False)]
)
def test_where_another_tuner_may_choose_the_answer_says_so(system: str, has: bool) -> None:
    """aws-ofi-nccl's on EFA, for the instances that it knows; ``time`` and ``top`` print it."""
    where = {"system": system, "axes": {"data": 16}, "reduce": ["data"], "bytes": 2**20}
    for verb, more in (("top", {"k": 1, "max_steps": 1}), ("time", {"program": PLAIN})):
        question = parse_question(VERBS[verb].question, {**where, **more})
        body = VERBS[verb].answer(question, Watcher()).body
        part = body["nccl"] if verb == "time" else body["system"]["nccl"]
        assert ("aws-ofi-nccl" in part.get("tuner", "")) == has
        shown = " ".join(printed(TABLES[verb](body)).split())
        assert ("OFI_NCCL_TUNER_TYPE=Internal" in shown) == has


def log(*, version: str = "2.22.3", algorithm: str = "", scale: float = 1.0) -> dict[str, str]:
    """A log of an all-reduce of one node of a DGX H100, by a latency and a bandwidth."""
    sizes = [2**power for power in range(10, 31, 2)]
    rows = tuple((size, scale * (40 + size / 2.4e5), scale * (40 + size / 2.4e5)) for size in sizes)
    lines = text(Written("all_reduce", 8, 1, rows))
    whole = "\n".join(lines).replace("2.22.3", version)
    head = f"NCCL_ALGO={algorithm} ./build/all_reduce_perf -b 1K -e 1G -f 4\n" if algorithm else ""
    return {"name": f"{version}.txt", "text": head + whole + "\n"}


def test_the_default_is_that_of_the_version_and_the_head_and_the_json_name_it() -> None:
    for version, default in (("2.28.3", "ring"), ("2.28.7", "nvls_tree")):
        reply = ask("top", **PAIRS, nccl=version)
        assert isinstance(reply, RankingReply)
        [one] = reply.answers
        assert one.default.name == default
        assert ("nvls_tree" in one.defaults) == (default == "nvls_tree")
        assert one.later_default is None
        assert reply.system.nccl
        assert (reply.system.nccl.version, reply.system.nccl.stated_by) == (version, "question")
        shown = printed(TABLES["top"](reply))
        assert shown.splitlines()[0].endswith(f", NCCL {version}")
        assert f"default: that of NCCL {version}, as asked" in shown
        assert machine(reply) == f"dgx-h100:4, NCCL {version}"


def test_without_a_version_one_is_assumed_and_said() -> None:
    reply = ask("top", **PAIRS)
    assert reply.system.nccl.model_dump(exclude_unset=True) == {
        "version": "2.28.3",
        "stated_by": "default",
    }
    assert reply.answers[0].later_default.name == "nvls_tree"
    assert "as no version is stated" in printed(TABLES["top"](reply))


@pytest.mark.parametrize(
    ("system", "version", "said"),
    [
        ("dgx-h100:4", "2.40.1", "NCCL 2.40.1 is not known"),
        ("dgx-h100:4", "new", "'new' is no version of NCCL"),
        ("aws-trn2-ultraserver", "2.29.7", "Neuron's"),
    ],
)
def test_a_version_that_cannot_be_is_refused_by_its_flag(
    system: str, version: str, said: str
) -> None:
    given = {"system": system, "axes": {"data": 64}, "reduce": ["data"], "nccl": version}
    with pytest.raises(InputError, match=said) as error:
        ask("top", **given)
    assert error.value.where == "--nccl"


def test_an_emitted_answer_remembers_its_version() -> None:
    reply = ask("top", **PAIRS, nccl="2.29.7")
    answer = json.loads(reply.model_dump_json(exclude_unset=True, by_alias=True))
    for stated, expected in (({}, "2.29.7"), ({"nccl": "2.28.3"}, "2.28.3")):
        question = EmitQuestion.model_validate({"from": answer, "target": "json", **stated})
        assert str(version_of(question.chosen().system)) == expected
    with pytest.raises(InputError, match=r"NCCL 2\.99 is not known"):
        ask("emit", **{"from": answer}, target="json", nccl="2.99")


def test_a_calibration_has_the_version_of_its_logs() -> None:
    reply = ask("calibrate", system="dgx-h100:2", files=[log()])
    assert isinstance(reply, CalibratedReply)
    assert not [warning for warning in reply.warnings if "version" in warning]
    [description] = [file.text for file in reply.files]
    system = parse_description("x", description)
    assert system.calibration
    assert system.calibration.nccl == "2.22.3"
    assert str(version_of(system)) == "2.22.3"
    machine_of = {"name": "h.toml", "text": description}
    whole = {"axes": {"data": 16}, "reduce": ["data"], "max_steps": 1, "k": 1}
    known = ask("top", system=machine_of, **whole).system.nccl
    assert (known.version, known.stated_by, known.measured) == ("2.22.3", "calibration", "")
    other = ask("top", system=machine_of, **whole, nccl="2.29.7")
    assert (other.system.nccl.version, other.system.nccl.measured) == ("2.29.7", "2.22.3")
    assert "the measurements are of 2.22.3" in printed(TABLES["top"](other))


def test_logs_of_several_or_unknown_versions_are_told() -> None:
    files = [log(), log(version="2.27.7", scale=1.01), log(version="2.12.12", scale=0.99)]
    reply = ask("calibrate", system="dgx-h100:2", files=files)
    assert [warning for warning in reply.warnings if "version" in warning] == [
        f"2.12.12.txt: measured with version 2.12.12, which is not known here: known are {KNOWN}",
        "logs of several versions of NCCL: 2.22.3, 2.27.7; the calibration states 2.22.3",
    ]


@pytest.mark.parametrize(("stated", "differs"), [("2.22.3", False), ("2.29", True), (None, False)])
def test_the_doctor_tells_a_log_of_another_version(stated: str | None, differs: bool) -> None:
    reply = ask("doctor", system="dgx-h100:2", files=[log()], nccl=stated)
    assert isinstance(reply, DoctorReply)
    [run] = reply.runs
    said = [warning for warning in run.warnings if "measured with version 2.22.3" in warning]
    assert bool(said) == differs


@pytest.mark.parametrize(("version", "refused"), [("2.22.3", True), ("2.23.4", False)])
def test_a_log_forced_to_what_its_version_does_not_know_is_refused(
    version: str, refused: bool
) -> None:
    """PAT is not priced, so a log of a version that has it is refused for that, not for its age."""
    with pytest.raises(InputError) as error:
        ask("calibrate", system="dgx-h100:2", files=[log(version=version, algorithm="PAT")])
    assert (f"NCCL {version} has no PAT" in str(error.value)) == refused


def test_where_nccl_has_two_level_kernels_the_gain_over_them_is_stated() -> None:
    """The default of unregistered buffers stays a ring; what the program gains is said of both."""
    given: dict[str, Any] = {"system": precise_text("dgx-h100:32", error=0.15)}
    given |= {"axes": {"data": 256}, "reduce": ["data"], "max_steps": 2}
    given |= {"request": "all-gather", "bytes": "1MiB", "k": 2}
    for version, has in (("2.28.3", False), ("2.30.7", True)):
        reply = ask("top", **given, nccl=version)
        first = reply.answers[0]
        assert first.default.name == "ring"
        assert ("hierarchical" in first.defaults) == has
        found = verdict(reply)
        assert found
        lines = [line for line in found.lines if "of two levels" in line]
        assert bool(lines) == has
        for line in lines:
            own = format_duration(first.defaults["hierarchical"])
            assert f"its own all-gather of two levels: about {own}, not" in line
            assert "ncclCommWindowRegister" in line
            assert line.endswith("over it row 1 gains nothing")


@pytest.mark.parametrize(
    ("version", "setting", "scope"),
    [
        ("2.22.3", "NCCL_ALGO=Tree NCCL_PROTO=LL", "for every collective that it sends"),
        ("2.28.3", "NCCL_ALGO=allreduce:Tree NCCL_PROTO=allreduce:LL", "for every all-reduce"),
    ],
)
def test_before_2_24_a_setting_names_no_collective_and_holds_for_all(
    version: str, setting: str, scope: str
) -> None:
    """parseList in src/graph/tuning.cc reads "allreduce:Tree" from v2.24.3-1 on."""
    given = {"system": "dgx-a100:2", "axes": {"data": 16}, "reduce": ["data"], "bytes": "1MiB"}
    reply = ask("top", **given, max_steps=1, k=1, prices="stated", nccl=version)
    advice = no_code_advice(reply, 0)
    assert advice
    assert advice.settings == (("", setting),)
    assert scope in advice.words
    shown = printed(TABLES["top"](reply))
    assert setting in shown
    assert "-x " + setting.replace(" NCCL", " -x NCCL").replace("allreduce:", "") in shown
