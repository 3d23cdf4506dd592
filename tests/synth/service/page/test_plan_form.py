"""The form for plans of a step as browsers without scripts see it, and its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")

from config_cases import text_of
from hierarchies.units import format_duration
from manual import DOCS
from patience import PATIENCE_SECONDS
from serving import Served, served
from synth.ask.planning import PlanQuestion
from synth.ask.questions.question import parse_question
from synth.service.limits import Limits
from synth.service.page.answer_routes import form_of
from synth.service.page.forms import FORMS
from synth.service.page.forms.checks import check
from synth.service.page.forms.values import question, values_of_fields, values_of_question

STEP = FORMS["step"]
FORM = {
    "system": "dgx-h100",
    "count": "1",
    "model": "gpt2-tiny",
    "batch": "64",
    "dtype": "bfloat16",
    "optimizer": "adamw",
    "k": "2",
    "pin": "data=4 pipe=1 zero=1 remat=no microbatches=1",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    how = {"wait_seconds": PATIENCE_SECONDS, "limits": Limits(wait_seconds=PATIENCE_SECONDS)}
    with served(tmp_path_factory.mktemp("plan"), **how) as found:
        yield found


@pytest.fixture(scope="module")
def answer(server: Served) -> str:
    response = server.ask.post("/plan", data=FORM)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def fields(**changed: str) -> dict[str, list[str]]:
    return {name: [text] for name, text in {**FORM, **changed}.items()}


def found_in(**changed: str) -> Any:
    given, checked = question(STEP, fields(**changed))
    return check(STEP, given, checked, lambda sound: None)


def test_the_form_is_there_and_linked_from_everywhere(server: Served) -> None:
    shown = server.ask.get("/plan")
    assert shown.status_code == 200
    assert all(
        f"<option>{name}</option>" in shown.text
        for name in STEP.shown["models"]
        if name != "llama3-8b"
    )
    assert "<option selected>llama3-8b</option>" in shown.text
    assert 'href="/plan"' in server.ask.get("/").text


def test_form_fields_round_trip_through_the_question() -> None:
    form = fields(sizes="layers=4", device="h100", explain="tensor=2", search="grid")
    given, checked = question(STEP, form)
    assert not checked.wrong
    sound = parse_question(PlanQuestion, given)
    assert sound.sizes == {"layers": 4}
    assert values_of_question(STEP, sound) == values_of_fields(STEP, form)


PROFILE = (DOCS / "profiles" / "mlp-tiny.profile").read_text()


def test_a_profile_is_pasted_and_one_of_another_machine_refused_at_its_field() -> None:
    form = fields(profile=PROFILE)
    given, checked = question(STEP, form)
    assert not checked.wrong
    assert values_of_question(STEP, parse_question(PlanQuestion, given)) == values_of_fields(
        STEP, form
    )
    found = found_in(profile=PROFILE)
    assert list(found.wrong) == ["profile"]
    assert "measured on Intel(R) Xeon(R) Processor" in found.wrong["profile"]


def test_a_configuration_is_pasted_and_a_bad_one_refused_at_the_model() -> None:
    form = fields(model="llama3-8b", own_model=text_of("qwen3"))
    given, checked = question(STEP, form)
    assert not checked.wrong
    assert given["model"] == {"name": "config.json", "text": text_of("qwen3")}
    sound = parse_question(PlanQuestion, given)
    assert values_of_question(STEP, sound) == values_of_fields(STEP, form)
    assert "2 layers, width 16" in found_in(own_model=text_of("qwen3")).facts["model"]
    found = found_in(own_model=text_of("qwen3", num_key_value_heads=3))
    assert "config.json: key_heads 3 do not divide heads 4" in found.wrong["model"]
    assert "not JSON" in found_in(own_model="{").wrong["model"]


def test_every_box_is_on_the_form(server: Served) -> None:
    shown = server.ask.get("/plan").text
    assert all(f'name="{name}"' in shown for name in STEP.boxes)


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        ({"batch": "many"}, "batch", "whole number"),
        ({"batch": "0"}, "batch", "greater than or equal to 1"),
        ({"model": ""}, "model", "no model is given"),
        ({"model": "gpt5"}, "model", "no model 'gpt5'"),
        ({"model": "resnet51"}, "model", "resnet51"),
        ({"pin": "tensr=8"}, "pin", "not understood: 'tensr=8'"),
        ({"explain": "zero=9"}, "explain", "not understood: 'zero=9'"),
        ({"device": "abacus"}, "device", "abacus"),
        ({"count": "x"}, "system", ""),
        ({"system": "nowhere"}, "system", "nowhere"),
        ({"sizes": "layers"}, "sizes", "layers"),
        ({"sizes": "wheels=4"}, "model", "has no wheels"),
        ({"dtype": "float8"}, "dtype", "float8"),
    ],
)
def test_errors_appear_at_their_fields(changed: dict[str, str], name: str, said: str) -> None:
    found = found_in(**changed)
    assert list(found.wrong) == [name]
    assert said in found.wrong[name]


def test_all_mistakes_are_shown_together_and_typed_values_stay(server: Served) -> None:
    wrong = {**FORM, "batch": "<b>", "pin": "nothing", "model": "gpt5"}
    shown = server.ask.post("/plan", data=wrong)
    assert shown.status_code == 422
    assert 'value="&lt;b&gt;"' in shown.text
    assert len(re.findall(r'aria-invalid="true"', shown.text)) == 3
    checked = server.ask.post("/plan/check", data=wrong).json()
    assert set(checked["wrong"]) == {"batch", "pin", "model"}


def test_totals_are_shown() -> None:
    told = found_in(sequence="32").facts
    assert told["model"] == "2 layers, width 32"
    assert told["batch"] == "2,048 tokens a step, 32 a sample"
    assert told["system"].endswith(": 8 devices")
    assert told["device"].startswith("H100 SXM5 80 GB, ")


def test_its_answer_has_all_sections_and_two_plans_beside_each_other(
    server: Served, answer: str
) -> None:
    shown = server.ask.get(answer).text
    beside = ("Plan against plan", "Timelines on one scale")
    for heading in ("Step time against memory", *beside, "Memory"):
        assert f">{heading}</h2>" in shown
    assert shown.count('class="timeline step"') == 2
    assert len(set(re.findall(r'data-seconds="(.*?)"', shown))) == 1
    assert ">difference</th>" in shown
    assert '<a href="#beside">Plan against plan</a>' in shown
    assert 'class="placed' in shown
    assert "<h3><bdi>plan 1: " in shown
    other = server.ask.get(f"{answer}?answer=1&against=0").text
    assert ">Placement of plan 2</h2>" in other
    assert other.index("<h3><bdi>plan 2: ") < other.index("<h3><bdi>plan 1: ")
    assert server.ask.get(f"{answer}?answer=7").status_code == 422
    assert server.ask.get(f"{answer}?against=7").status_code == 422


def test_its_files_are_a_tab_a_framework_and_a_folder_to_download(
    server: Served, answer: str
) -> None:
    shown = server.ask.get(answer).text
    files = {
        one["name"]: one["text"] for one in server.ask.get(f"/v1{answer}").json()["answer"]["files"]
    }
    folders = list(dict.fromkeys(name.partition("/")[0] for name in files))
    assert re.findall(r'role="tab" id="tab-([a-z-]*)" aria-controls="files-\1"', shown) == folders
    assert re.findall(r'role="tabpanel" id="files-([a-z-]*)"', shown) == folders
    assert "DeepSpeed 0.19 <span>deepspeed.json</span>" in shown
    assert "Not available for torchtitan: " in shown
    for name, text in files.items():
        assert f'href="{answer}/file/{name}" download' in shown
        assert server.ask.get(f"{answer}/file/{name}").text == text
    for folder in folders:
        kept = server.ask.get(f"{answer}/folder/{folder}")
        assert kept.headers["content-disposition"] == f'attachment; filename="{folder}.zip"'
        with ZipFile(BytesIO(kept.content)) as whole:
            inside = {name: whole.read(name).decode() for name in whole.namelist()}
        assert inside == {n: t for n, t in files.items() if n.startswith(f"{folder}/")}
    assert server.ask.get(f"{answer}/folder/nothing").status_code == 404


def test_any_plan_is_to_be_had_as_files(server: Served, answer: str) -> None:
    """The one to be taken with the very files that the answer has; another with its own."""
    whole = server.ask.get(f"/v1{answer}").json()["answer"]
    for index, one in enumerate(whole["plans"]):
        shown = server.ask.get(f"{answer}?answer={index}").text
        [links] = re.findall(r'id="its-files">(.*?)</p>', shown, re.DOTALL)
        if index == whole["advised"]:
            assert 'href="#files"' in links
            continue
        assert f'href="{answer}/plans/{index}/megatron"' in links
        kept = server.ask.get(f"{answer}/plans/{index}/megatron")
        named = f'attachment; filename="plan-{index + 1}-megatron.zip"'
        assert kept.headers["content-disposition"] == named
        with ZipFile(BytesIO(kept.content)) as zipped:
            texts = "".join(zipped.read(name).decode() for name in zipped.namelist())
        assert one["plan"] in " ".join(texts.replace("#", " ").split())
    taken = server.ask.get(f"{answer}/plans/{whole['advised']}/megatron")
    files = {one["name"]: one["text"] for one in whole["files"]}
    with ZipFile(BytesIO(taken.content)) as zipped:
        assert {name: zipped.read(name).decode() for name in zipped.namelist()} == {
            name: text for name, text in files.items() if name.startswith("megatron/")
        }
    listed = server.ask.get("/v1/jobs").json()["jobs"]
    assert "train" not in {one["verb"] for one in listed}, "the page asked, for a part of itself"
    assert server.ask.get(f"{answer}/plans/99/megatron").status_code == 404
    assert server.ask.get(f"{answer}/plans/0/nothing").status_code == 404


def test_the_plans_of_two_answers_are_on_one_clock_with_their_differences(
    server: Served, answer: str
) -> None:
    """What the JSON of both says: the values, how much more they are, and what they have alike."""
    pin = "pipe=2 data=4 zero=1 remat=no microbatches=2 schedule=1f1b"
    other = server.ask.post("/plan", data={**FORM, "pin": pin}).headers["location"]
    shown = server.ask.get(f"/compare?of={answer[9:]}&of={other[9:]}").text
    bodies = [server.ask.get(f"/v1{one}").json()["answer"] for one in (answer, other)]
    one, two = (body["plans"][body["advised"]] for body in bodies)
    cells = [
        [unescape(cell) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", shown, re.DOTALL)
    ]
    rows = {row[0]: row[1:] for row in cells if row}
    more = two["seconds"] - one["seconds"]
    assert rows["step time"] == [
        format_duration(one["seconds"]),
        format_duration(two["seconds"]),
        f"{'+' if more > 0 else '-'}{format_duration(abs(more))} ({more / one['seconds']:+.0%})",
    ]
    assert rows["placement"] == [str(each["placement"]) for each in (one, two)]
    assert rows["bubble"][2] == f"+{format_duration(two['idle_seconds'])}"
    assert shown.count('class="timeline step"') == 2
    scales = re.findall(r'class="timeline step".*?data-seconds="(.*?)"', shown)
    assert [*map(float, scales)] == [max(one["seconds"], two["seconds"])] * 2
    again = server.ask.get(f"/compare?of={answer[9:]}&of={answer[9:]}").text
    assert "The same for all plans: step time, tokens per second, " in again
    assert ">difference</th>" not in again


def test_the_plan_of_why_not_is_shown_next_to_the_first(server: Served) -> None:
    where = server.ask.post("/plan", data={**FORM, "explain": "zero=3"}).headers["location"]
    shown = server.ask.get(where).text
    assert re.findall(r"<h3><bdi>([^:]*): ", shown) == ["plan 1", "with zero=3"]
    assert shown.index("Why not zero=3? ") < shown.index(">The fastest plans</h2>")
    chosen = server.ask.get(f"{where}?answer=2").text
    assert re.findall(r"<h3><bdi>([^:]*): ", chosen) == ["with zero=3", "plan 1"]


def test_it_can_be_asked_again_otherwise(server: Served, answer: str) -> None:
    [like] = re.findall(r'href="(/plan\?like=[0-9a-f]{64})"', server.ask.get(answer).text)
    shown = server.ask.get(unescape(like)).text
    for name, text in FORM.items():
        if name in STEP.usual and name not in ("model", "dtype", "optimizer"):
            assert f'name="{name}" value="{text}"' in shown
    assert "<option selected>gpt2-tiny</option>" in shown


def test_that_nothing_fits_is_an_answer_too(server: Served) -> None:
    large = {**FORM, "model": "llama3-8b", "pin": "data=8 zero=0", "sequence": "1024"}
    where = server.ask.post("/plan", data=large).headers["location"]
    shown = server.ask.get(where)
    assert shown.status_code == 200
    assert "Nothing fits in memory" in shown.text
    assert "NOTHING FITS" in shown.text


def test_a_plan_is_looked_at_by_its_row(server: Served, answer: str) -> None:
    page = server.ask.get(answer).text
    assert f'<a href="{answer}?answer=1#beside">2</a>' in page
    assert 'id="placement-title">Placement of plan 2' in server.ask.get(f"{answer}?answer=1").text


def test_a_rank_is_found_in_the_pictures_of_a_plan(server: Served, answer: str) -> None:
    page = server.ask.get(f"{answer}?answer=1&against=0&rank=5").text
    assert "<strong>Rank 5</strong> is <code>node0/gpu5</code>" in page
    assert '<input type="hidden" name="answer" value="1">' in page
    said = dict(re.findall(r"<p>Group over (\w+): (\d+) devices", page))
    drawn = page[page.index('<div class="wide drawing" role="region" aria-label="Placement 1"') :]
    first, _, _ = drawn.partition("</svg>")
    assert first.count('<g class="device here"') == 1
    assert "device 5, node0/gpu5" in first.partition('<g class="device here"')[2][:200]
    assert str(first.count('<g class="device peer"') + 1) in said.values()
    refused = server.ask.get(f"{answer}?rank=8").text
    assert "There is no rank" in refused
    assert "device here" not in refused


def test_a_sweep_has_no_form_that_would_drop_its_values() -> None:
    asked = {"system": "dgx-h100:1", "model": "llama3-tiny"}
    assert form_of("plan", asked) == "/plan"
    assert form_of("plan", {**asked, "sweep": {"batch": ["8", "16"]}}) == ""


def test_the_page_of_a_sweep_begins_with_its_verdict(server: Served) -> None:
    asked = {"system": "dgx-h100:1", "model": "gpt2-tiny", "k": 1, "pin": FORM["pin"]}
    sweep = {"batch": ["64", "128"]}
    body = server.ask.post("/v1/plan", json={**asked, "sweep": sweep})
    assert body.status_code == 200, body.text
    page = server.ask.get(body.headers["content-location"].removeprefix("/v1")).text
    verdict = re.search(r'<h2 id="verdict-title">(.*?)</h2>', page)
    assert verdict is not None
    assert "Fastest per device: batch 128" in verdict[1]
    assert page.index(verdict[1]) < page.index("All combinations") < page.index("<polyline")
    assert "In full" not in page
