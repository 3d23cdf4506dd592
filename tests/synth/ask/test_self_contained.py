"""A question holds all that its answer depends on: no verb reads a disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import synth
from each import each
from hierarchies import InputError, catalogue, load
from places import TESTS
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS
from synth.cli.app import app
from synth.collective.ranking.request import Watcher
from synth.collective.workload.files import job_text

HERE = TESTS
ROOT = Path(synth.__file__).parent.parent
NESTED = "reduce-scatter node inside; all-reduce node parallel; all-gather node inside"
OURS = (ROOT / "hierarchies" / "catalogue" / "dgx-a100.toml").read_text(encoding="utf-8")
OURS = OURS.replace('name = "dgx-a100"', 'name = "ours"').replace(
    "default_count = 4", "default_count = 2"
)
KEPT = {
    "system": {"name": "pair", "levels": [{"name": "gpu", "count": 2}]},
    "bytes": 1024,
    "answers": [{"rank": 1, "program": "", "seconds": 1e-5}],
}
TEXTS = {
    "ours.toml": OURS,
    "job.toml": job_text("gpt-18b-3d"),
    "dump.xml": (HERE / "imports" / "switched.xml").read_text(encoding="utf-8"),
    "network.conf": "SwitchName=leaf1 Nodes=n[1-2]\n",
    "before.json": json.dumps(KEPT),
    "after.json": json.dumps({**KEPT, "bytes": 2048}),
    "plan.txt": "data=2; batch over data\n",
    "kept.step": (HERE / "steps" / "mlp-tiny.step").read_text(encoding="utf-8"),
    "order.csv": "0F0,0B0\n1F0,1B0\n",
    "cut.plan": "data=2; batch over data",
    "eight.plan": "data=8; batch over data",
    "log.csv": (ROOT / "docs/logs/sophia-all-gather-2x8.csv").read_text(encoding="utf-8"),
}
PLACED = {"axes": {"data": 16}, "reduce": ["data"]}
FLAGS = ("--axes", "data=16", "--reduce", "data")


def named(name: str, count: str = "") -> dict[str, str]:
    return {"name": name + count, "text": TEXTS[name]}


SYSTEM = named("ours.toml")
CASES: Mapping[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "systems": (("ours.toml:3",), {"system": named("ours.toml", ":3")}),
    "import": (
        ("slurm", "network.conf", "--inside", "ours.toml", "--suggested"),
        {
            "kind": "slurm",
            "files": [named("network.conf")],
            "inside": SYSTEM,
            "suggested": True,
        },
    ),
    "graph": (
        ("ours.toml", "--format", "dot", "--without", "node0/gpu1"),
        {"system": SYSTEM, "format": "dot", "without": ["node0/gpu1"]},
    ),
    "place": (
        ("ours.toml", "--axes", "a=4,b=4"),
        {"system": SYSTEM, "axes": {"a": 4, "b": 4}},
    ),
    "count": (("--digits", "2", "--max-steps", "3"), {"digits": 2, "max_steps": 3}),
    "top": (
        ("ours.toml", *FLAGS, "-k", "1", "--max-steps", "2"),
        {"system": SYSTEM, **PLACED, "k": 1, "max_steps": 2},
    ),
    "sweep": (
        ("ours.toml", "p2-a100:1", *FLAGS, "-k", "1", "--max-steps", "2"),
        {"systems": [SYSTEM, "p2-a100:1"], **PLACED, "k": 1, "max_steps": 2},
    ),
    "cost": (
        ("ours.toml", *FLAGS, "--max-steps", "2", "--slow", "node1=0.5"),
        {"system": SYSTEM, **PLACED, "max_steps": 2, "slow": {"node1": 0.5}},
    ),
    "plan": (
        ("ours.toml:4", "--job", "job.toml", "-k", "1", "--max-steps", "1", "--no-stripes"),
        {
            "system": named("ours.toml", ":4"),
            "job": named("job.toml"),
            "k": 1,
            "max_steps": 1,
            "stripes": False,
        },
    ),
    "job": (
        (
            *("--layers", "8", "--hidden", "64", "--heads", "8", "--vocabulary", "100"),
            *("--sequence", "16", "--micro-batches", "4", "--axes", "data=any,tensor=1|2"),
        ),
        {
            "layers": 8,
            "hidden": 64,
            "heads": 8,
            "vocabulary": 100,
            "sequence": 16,
            "micro_batches": 4,
            "axes": {"data": "any", "tensor": "1|2"},
        },
    ),
    "order": (
        ("order.csv", "--transfer", "0.5"),
        {"order": "0F0,0B0\n1F0,1B0\n", "transfer": 0.5},
    ),
    "diff": (
        ("before.json", "after.json"),
        {"first": KEPT, "second": {**KEPT, "bytes": 2048}},
    ),
    "check": (
        (NESTED, "ours.toml", *FLAGS, "--replay"),
        {"program": NESTED, "system": SYSTEM, **PLACED, "replay": True},
    ),
    "lower": (
        (NESTED, "ours.toml", *FLAGS),
        {"program": NESTED, "system": SYSTEM, **PLACED},
    ),
    "time": (
        (NESTED, "ours.toml", *FLAGS, "--bytes", "1MiB"),
        {"program": NESTED, "system": SYSTEM, **PLACED, "bytes": "1MiB"},
    ),
    "emit": (
        (NESTED, "ours.toml", *FLAGS, "--target", "torch"),
        {"program": NESTED, "system": SYSTEM, **PLACED, "target": "torch"},
    ),
    "run": (
        (NESTED, "ours.toml", *FLAGS, "--bytes", "1KiB", "--check"),
        {"program": NESTED, "system": SYSTEM, **PLACED, "bytes": 1024, "check": True},
    ),
    "calibrate": (
        ("ours.toml", "log.csv"),
        {"system": SYSTEM, "files": [named("log.csv")]},
    ),
    "doctor": (
        ("ours.toml", "log.csv"),
        {"system": SYSTEM, "files": [named("log.csv")]},
    ),
    "trace": (("kept.step",), {"model": named("kept.step")}),
    "shard": (
        ("kept.step", "--plan", "cut.plan"),
        {"model": named("kept.step"), "plan": "data=2; batch over data"},
    ),
    "simulate": (
        ("kept.step", "ours.toml:1", "--plan", "eight.plan"),
        {
            "model": named("kept.step"),
            "system": named("ours.toml", ":1"),
            "plan": "data=8; batch over data",
        },
    ),
    "buckets": (
        ("kept.step", "ours.toml:1"),
        {"model": named("kept.step"), "system": named("ours.toml", ":1")},
    ),
    "train": (
        ("kept.step", "--plan", "plan.txt"),
        {"model": named("kept.step"), "plan": "data=2; batch over data\n"},
    ),
    "profile": (
        ("kept.step", "--plan", "plan.txt", "--no-measure"),
        {"model": named("kept.step"), "plan": "data=2; batch over data\n", "measure": False},
    ),
}
MORE: Mapping[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "one node": (
        "import",
        ("nccl-xml", "dump.xml", "--nodes", "4"),
        {"kind": "nccl-xml", "files": [named("dump.xml")], "nodes": 4},
    ),
    "a file named twice": (
        "import",
        ("nccl-xml", "dump.xml", "dump.xml"),
        {"kind": "nccl-xml", "files": [named("dump.xml")]},
    ),
    "tests to run": (
        "calibrate",
        ("--plan", "ours.toml"),
        {"system": SYSTEM, "plan": True},
    ),
    "a known machine": ("systems", ("dgx-h100:2",), {"system": "dgx-h100:2"}),
    "all machines": ("systems", (), {}),
    "a shipped job": (
        "plan",
        ("dgx-h100:4", "--job", "gpt-18b-3d", "--max-steps", "1", "--no-stripes"),
        {"system": "dgx-h100:4", "job": "gpt-18b-3d", "max_steps": 1, "stripes": False},
    ),
}
OPENED: list[str] = []
_WATCHING = [False]


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if not _WATCHING[0] or event not in ("open", "os.listdir", "os.scandir", "shutil.copyfile"):
        return
    path = arguments[0]
    ours = (str(ROOT / "hierarchies"), str(ROOT / "grammar"), str(ROOT / "synth"), sys.prefix)
    if isinstance(path, str) and not path.startswith((*ours, sys.base_prefix, "/proc/self")):
        OPENED.append(path)


@cache
def _listen() -> None:
    """From now on: nobody can be told to listen no more, and all that opens files is slower."""
    sys.addaudithook(_note)


@contextmanager
def no_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to be in, and whatever is read outside of the packages is noted."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    OPENED.clear()
    _listen()
    with monkeypatch.context() as patch:
        patch.chdir(empty)
        for look in ("is_file", "exists", "is_dir"):
            patch.setattr(Path, look, _looked(getattr(Path, look)))
        _WATCHING[0] = True
        try:
            yield
        finally:
            _WATCHING[0] = False
    assert OPENED == []


def _looked(look: Any) -> Any:
    def noted(path: Path) -> Any:
        _note("open", (str(path.absolute()),))
        return look(path)

    return noted


def answer(verb: str, question: object) -> Any:
    """As a caller with JSON sees it: the question and the answer pass through text."""
    model = VERBS[verb].question
    again = parse_question(model, json.loads(json.dumps(question)))
    return json.loads(json.dumps(VERBS[verb].answer(again, Watcher()).body, allow_nan=False))


def test_every_verb_has_its_case() -> None:
    assert list(CASES) == list(VERBS)


@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_the_question_alone_has_the_answer_of_the_command_line_with_files(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, words, question = (case, *CASES[case]) if case in CASES else MORE[case]
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with no_disk(tmp_path, monkeypatch):
        body = answer(verb, question)
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, [verb, *words, "--json"])
    assert said.stderr == ""
    assert without_measured(body) == without_measured(json.loads(said.stdout))


def without_measured(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if not key.startswith("measured")}


@pytest.mark.parametrize("case", [*CASES, *MORE])
def test_a_question_is_written_down_as_json_and_read_back(case: str) -> None:
    verb, _, question = (case, *CASES[case]) if case in CASES else MORE[case]
    model = VERBS[verb].question
    read = parse_question(model, question)
    written = json.loads(json.dumps(read.model_dump(mode="json", by_alias=True)))
    assert parse_question(model, written) == read


def test_an_answer_that_is_emitted_later_is_part_of_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking = answer("top", CASES["top"][1])
    question = {"from": ranking, "target": "json"}
    read = parse_question(VERBS["emit"].question, question)
    written = json.loads(read.model_dump_json(by_alias=True))
    assert parse_question(VERBS["emit"].question, written) == read
    (tmp_path / "answer.json").write_text(json.dumps(ranking), encoding="utf-8")
    with no_disk(tmp_path, monkeypatch):
        body = answer("emit", question)
    words = ["emit", "--from", str(tmp_path / "answer.json"), "--target", "json", "--json"]
    assert json.loads(CliRunner().invoke(app, words).stdout) == body


def test_only_what_measures_is_not_repeatable() -> None:
    assert [name for name, verb in VERBS.items() if not verb.repeatable] == [
        "run",
        "train",
        "profile",
    ]


def test_looking_at_the_disk_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours.toml").write_text(OURS, encoding="utf-8")
    path = tmp_path / "ours.toml"
    for look in (lambda: load(str(path)), path.read_bytes, lambda: path.is_file()):
        with pytest.raises(AssertionError), no_disk(tmp_path, monkeypatch):
            look()


HOSTILE: Mapping[str, Any] = {
    "a path": "/etc/passwd",
    "a path upwards": "../x.toml",
    "a file that is there": "ours.toml",
    "a file of the catalogue": "../hierarchies/catalogue/dgx-h100.toml",
    "a path with a number": "./ours.toml:4",
    "an address": "file:///etc/passwd",
    "NUL": "a\0b",
    "NUL in a path": "a\0/b.toml",
    "nothing": "",
    "a long name": "a" * 10**6,
    "a long number": "dgx-h100:" + "9" * 5000,
    "other digits": "dgx-h100:٣",
    "a line end": "dgx-h100\n",
    "half a character": "\ud800",
    "a folder": ".",
    "a number": 5,
    "a list": ["dgx-h100"],
    "an empty text": {"name": "../../x", "text": ""},
    "no text": {"name": "x.toml"},
    "no name": {"text": OURS},
    "an empty name": {"name": "", "text": OURS},
    "a name of two lines": {"name": "x\ny", "text": OURS},
    "a name with NUL": {"name": "x\0y", "text": OURS},
    "a long name of a text": {"name": "a" * 5000, "text": OURS},
    "no machine of a text": {"name": "x.toml:0", "text": OURS},
    "more than a text": {"name": "x.toml", "text": OURS, "path": "/etc/passwd"},
    "half a character in a text": {"name": "x.toml", "text": "# \udfff"},
    "bytes": {"name": "x.toml", "text": [1, 2]},
    "brackets": {"name": "x.toml", "text": "a = " + "[" * 100_000},
    "noise": {"name": "x.toml", "text": "a" * 10**7},
}


@pytest.mark.parametrize("verb", [name for name in CASES if name not in ("count", "job", "diff")])
@each("case", HOSTILE)
def test_a_name_opens_no_file(
    verb: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir(exist_ok=True)
    (tmp_path / "empty" / "ours.toml").write_text(OURS, encoding="utf-8")
    key = "inside" if verb == "import" else "system"
    question = {**CASES[verb][1], key: HOSTILE[case]}
    model = VERBS[verb].question
    with no_disk(tmp_path, monkeypatch), pytest.raises(InputError) as caught:
        VERBS[verb].answer(parse_question(model, question), Watcher())
    told = str(caught.value)
    assert told.isascii() or told.isprintable()
    assert len(told) < 6000


@pytest.mark.parametrize("case", HOSTILE)
def test_the_name_of_a_job_or_a_file_opens_no_file(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = HOSTILE[case]
    wrong = wrong | {"text": wrong["text"].replace(OURS, "")} if "name of" in case else wrong
    questions = {
        "plan": {**CASES["plan"][1], "job": wrong},
        "doctor": {**CASES["doctor"][1], "files": [wrong]},
        "import": {**CASES["import"][1], "files": [wrong]},
        "systems": {"system": wrong},
    }
    for verb, question in questions.items():
        with no_disk(tmp_path, monkeypatch), pytest.raises(InputError):
            VERBS[verb].answer(parse_question(VERBS[verb].question, question), Watcher())
    if isinstance(wrong, str):
        with pytest.raises(InputError):
            answer("import", {"kind": wrong, "files": [named("dump.xml")]})
        with pytest.raises(InputError):
            answer("emit", {**CASES["emit"][1], "target": wrong})


@given(st.text(max_size=12), st.text(max_size=30))
def test_any_name_is_a_machine_or_is_refused(name: str, text: str) -> None:
    known = name.rpartition(":")[0] in catalogue() or name in catalogue()
    for given_as in (name, {"name": name, "text": text}):
        try:
            body = answer("systems", {"system": given_as})
        except InputError:
            continue
        assert known
        assert body["system"]["name"] in name


def test_a_path_in_json_is_answered_with_how_a_text_is_given() -> None:
    with pytest.raises(InputError, match=r'no system \'my.toml\' .* \{"name": "my.toml", "text": '):
        answer("systems", {"system": "my.toml"})
    with pytest.raises(InputError, match=r"no job 'my.toml'.* \{\"name\": \"my.toml\", \"text\": "):
        answer("plan", {"system": "dgx-h100", "job": "my.toml"})


def test_two_texts_of_one_name_are_refused() -> None:
    files = [named("dump.xml"), {"name": "dump.xml", "text": "other"}]
    with pytest.raises(InputError, match=r"files: 'dump.xml' is given twice"):
        answer("import", {"kind": "nccl-xml", "files": files})
