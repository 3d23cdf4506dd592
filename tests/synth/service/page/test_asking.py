"""The forms of further verbs, what their answers come to, and two answers side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urldefrag, urljoin

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from grammar import Collective, ProgramInstruction
from grammar.collectives.program import Across, Form
from hierarchies import load
from hierarchies.files.writing import describe_system
from hierarchies.units import format_duration
from log_writer import Written, devices
from log_writer import text as written
from machines import precise_text
from patience import PATIENCE_SECONDS
from serving import Served, served
from synth.ask.questions.question import parse_question
from synth.ask.table import VERBS, judge
from synth.ask.taking import Recommendation, recommend
from synth.collective.ranking.request import Watcher
from synth.service.http.examples import EXAMPLES
from synth.service.limits import Limits
from synth.service.page.forms.checks import check
from synth.service.page.forms.table import FORMS as ALL_FORMS
from synth.service.page.forms.values import (
    FormValues,
    example,
    question,
    values_of_fields,
    values_of_question,
)
from synth.service.page.help import TERMS, link_step
from synth.service.page.views import view_of_answer

FORMS = {name: form for name, form in ALL_FORMS.items() if form.address.startswith("/ask/")}
WRITTEN = Written("all_reduce", 32, 4, tuple((1 << at, 99.0, 99.0) for at in (20, 25, 30)))
H100 = "\n".join(
    (
        "all_reduce_perf",
        *devices(WRITTEN, "NVIDIA H100 80GB HBM3"),
        *written(WRITTEN, head=False),
    )
)
LOG = EXAMPLES["doctor"]["files"][0]["text"]
ON = {"axes": "data=32", "reduce": "data", "bytes": "64MiB", "max_steps": "2", "no_stripes": "yes"}
SENT: dict[str, dict[str, Any]] = {
    "sweep": {"systems": "p2-a100:2, dgx-h100:4", "k": "1", **ON},
    "cost": {"system": "p2-a100", "count": "2", "slow": "node1=0.5", **ON},
    "plan": {"job": "gpt-18b-3d", "system": "dgx-h100", "count": "4", "k": "1", "max_steps": "2"},
    "doctor": {"system": "dgx-a100", "count": "2", "log_name": ["a.csv"], "log_text": [LOG]},
    "calibrate": {"system": "dgx-a100", "count": "2", "log_name": ["a.csv"], "log_text": [LOG]},
    "tests": {
        "system": "dgx-h100",
        "count": "2",
        "only": "gpu-alone-all-gather, all-all-gather",
        "launcher": "srun",
    },
}
COMES_TO = {
    "sweep": "is the fastest",
    "cost": "times as long",
    "plan": "exposed communication",
    "doctor": "1 run",
    "calibrate": "measured rows fitted",
    "tests": "2 tests",
}


def fields(verb: str, **changed: Any) -> dict[str, list[str]]:
    given = {**SENT[verb], **changed}
    return {name: one if isinstance(one, list) else [one] for name, one in given.items()}


def wrong(verb: str, **changed: Any) -> dict[str, str]:
    given, checked = question(FORMS[verb], fields(verb, **changed))
    return check(FORMS[verb], given, checked, lambda sound: None).wrong


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("asking"), wait_seconds=PATIENCE_SECONDS) as one:
        yield one


@pytest.fixture(scope="module")
def answers(server: Served) -> dict[str, str]:
    """The pages of the answers to all forms."""
    where = {}
    for verb, sent in SENT.items():
        put = server.ask.post(f"/ask/{verb}", data=sent)
        assert put.status_code == 303, put.text
        where[verb] = str(put.headers["location"])
    return where


@pytest.mark.parametrize("verb", FORMS)
def test_a_form_is_complete_and_can_be_submitted_unchanged_except_for_logs(
    server: Served, verb: str
) -> None:
    shown = server.ask.get(f"/ask/{verb}")
    assert shown.status_code == 200
    form, values = FORMS[verb], example(FORMS[verb])
    for name in form.boxes:
        assert f'name="{name}"' in shown.text
    given, checked = question(form, sent_by(values))
    assert values_of_fields(form, sent_by(values)).texts == values.texts
    told = check(form, given, checked, lambda sound: None)
    assert set(told.wrong) == ({"logs"} if "logs" in form.needs else set())
    assert f'href="/ask/{verb}"' in server.ask.get("/").text


@pytest.mark.parametrize("verb", FORMS)
def test_form_fields_round_trip_through_the_question(verb: str) -> None:
    form, sent = FORMS[verb], fields(verb)
    given, checked = question(form, sent)
    assert not checked.wrong
    sound = parse_question(form.model, given)
    again, checked = question(form, sent_by(values_of_question(form, sound)))
    assert not checked.wrong
    assert parse_question(form.model, again) == sound


def sent_by(values: FormValues) -> dict[str, list[str]]:
    """What a browser sends of a form filled so."""
    held = {name: getattr(values, name) for name in ("system", "count", "own", "systems", "job")}
    held |= {
        "own_job": values.own_job,
        "own_model": values.own_model,
        **values.texts,
        **dict.fromkeys(values.ticked, "yes"),
    }
    logs = {"log_name": [one.name for one in values.logs]}
    return (
        {name: [one] for name, one in held.items()}
        | logs
        | {"log_text": [one.text for one in values.logs]}
    )


@pytest.mark.parametrize(
    ("verb", "changed", "field", "said"),
    [
        ("sweep", {"systems": ""}, "systems", "at least 1"),
        ("sweep", {"systems": "dgx-h1000"}, "systems", "did you mean dgx-h100"),
        ("sweep", {"systems": "dgx-h100:3"}, "axes", "24"),
        ("sweep", {"axes": "data=x"}, "axes", "is not an axis"),
        ("sweep", {"reduce": "model"}, "reduce", "model"),
        ("sweep", {"bytes": "1 parsec"}, "bytes", "cannot be read"),
        ("cost", {"slow": "node1"}, "slow", "as in node3/nic2=0.5"),
        ("cost", {"slow": "", "without": "node9"}, "without", "node9"),
        ("cost", {"k": "1", "max_steps": "x"}, "max_steps", "whole number"),
        ("cost", {"system": "nothing"}, "system", "nothing"),
        ("plan", {"job": "gpt-19b"}, "job", "gpt-18b-3d"),
        ("plan", {"own_job": "name = 3"}, "job", "own-job.toml"),
        ("doctor", {"log_text": [" "]}, "logs", "no log is given"),
        ("doctor", {"log_text": ["a day"]}, "logs", "a.csv"),
        ("doctor", {"hosts": "0"}, "hosts", "greater than or equal to 1"),
        ("doctor", {"baseline": H100}, "baseline", "dgx-h100:4"),
        ("doctor", {"baseline": "all-reduce-2x8"}, "baseline", "no baseline 'all-reduce-2x8'"),
        ("calibrate", {"members": "x"}, "members", "a number for each level"),
    ],
)
def test_errors_appear_at_their_fields(
    verb: str, changed: dict[str, Any], field: str, said: str
) -> None:
    noted = wrong(verb, **changed)
    assert said in noted.get(field, ""), noted


def test_facts_of_machines_jobs_and_logs_are_shown(server: Served) -> None:
    told = {
        verb: server.ask.post(f"/ask/{verb}/check", data=sent).json()["facts"]
        for verb, sent in SENT.items()
    }
    assert told["sweep"]["systems"] == "p2-a100:2: 32 devices; dgx-h100:4: 32 devices"
    assert told["cost"] == {"system": "2 node × 16 gpu: 32 devices", "axes": "product 32"}
    assert re.match(r"\d+ collectives over ", told["plan"]["job"])
    assert told["doctor"]["logs"] == "1 table, 4 rows"


def test_the_machine_that_logs_name_is_reported_and_another_is_refused() -> None:
    """A log of 32 H100 in a form that has dgx-a100 x 2: it suits dgx-h100 x 4."""
    given, checked = question(FORMS["doctor"], fields("doctor", log_text=[H100]))
    found = check(FORMS["doctor"], given, checked, lambda sound: None)
    assert found.suits == {"system": "dgx-h100", "count": "4"}
    assert "NVIDIA H100" in found.wrong["system"]
    assert found.facts["logs"].endswith("of NVIDIA H100 80GB HBM3")
    given, checked = question(FORMS["doctor"], fields("doctor", log_text=[H100], **found.suits))
    right = check(FORMS["doctor"], given, checked, lambda sound: None)
    assert (right.suits, right.wrong) == ({}, {})


def test_baselines_that_are_too_long_are_reported_at_their_field(tmp_path: Path) -> None:
    text = LOG + "\n# and more" * 4000
    with served(tmp_path, limits=Limits(body_bytes=3 * len(text) // 2)) as found:
        for test in ("one", "two"):
            kept = found.ask.put(f"/v1/baselines/dgx-a100/{test}", json={"text": text})
            assert kept.status_code == 200, kept.text
        sent = {**SENT["doctor"], "baseline": "kept"}
        for url in ("/ask/doctor/check", "/ask/doctor"):
            reply = found.ask.post(url, data=sent)
            assert f"2 baselines of dgx-a100 that are named have {2 * len(text)}" in reply.text
        wrong = found.ask.post("/ask/doctor/check", data=sent).json()["wrong"]
        assert list(wrong) == ["baseline"]


def test_a_pasted_baseline_is_compared_with_and_stands_in_the_form_again(server: Served) -> None:
    sent = {**SENT["doctor"], "baseline": LOG}
    assert server.ask.post("/ask/doctor/check", data=sent).json()["wrong"] == {}
    reply = server.ask.post("/ask/doctor", data=sent, follow_redirects=True)
    assert "As before: 1 run" in reply.text
    [again] = re.findall(r'href="(/ask/doctor\?like=[0-9a-f]{64})"', reply.text)
    filled = unescape(server.ask.get(again).text)
    assert filled.count(LOG.splitlines()[-1]) == 2


@pytest.mark.parametrize("verb", FORMS)
def test_an_answer_begins_with_its_verdict_and_links_to_its_form(
    server: Served, answers: dict[str, str], verb: str
) -> None:
    page = unescape(server.ask.get(answers[verb]).text)
    assert COMES_TO[verb] in page.partition("<table")[0]
    [again] = re.findall(rf'href="(/ask/{verb}\?like=[0-9a-f]{{64}})"', page)
    filled = unescape(server.ask.get(again).text)
    first = next(iter(SENT[verb].values()))
    assert (first if isinstance(first, str) else first[0]).split(",")[0] in filled


def test_a_calibrated_description_is_kept_and_asked_with(
    server: Served, answers: dict[str, str]
) -> None:
    where = answers["calibrate"]
    kept = server.ask.get(f"{where}/file/dgx-a100.toml")
    assert kept.headers["content-disposition"] == 'attachment; filename="dgx-a100.toml"'
    assert "-o FILE" not in server.ask.get(where).text
    form = {**SENT["doctor"], "own": kept.text, "count": ""}
    assert server.ask.post("/ask/doctor/check", data=form).json()["wrong"] == {}
    assert server.ask.get(f"{where}/file/other.toml").status_code == 404


ONWARD = {
    "doctor": {"/ask/calibrate": LOG.splitlines()[-1]},
    "calibrate": {"/": "[calibration]", "/plan": "[calibration]", "/ask/doctor": "[calibration]"},
}


@pytest.mark.parametrize("verb", ONWARD)
def test_measurements_are_carried_into_the_next_question(
    server: Served, answers: dict[str, str], verb: str
) -> None:
    """No machine is chosen again, and no file: as far as the next form takes what was given."""
    page = unescape(server.ask.get(answers[verb]).text)
    for form, held in ONWARD[verb].items():
        [address] = re.findall(rf'href="({re.escape(form)}\?on=[0-9a-f]{{64}})"', page)
        filled = unescape(server.ask.get(address).text)
        assert held in filled
        if form == "/":
            assert 'name="axis_size" value="16"' in filled
        name = 'name = "dgx-a100"' if verb == "calibrate" else 'value="dgx-a100" selected'
        assert name in filled


def test_ambiguous_levels_of_a_log_link_to_deciding_tests(server: Served) -> None:
    times = {1 << 26: 1.8e3, 1 << 28: 6e3, 1 << 30: 2.2e4}
    slow = Written("all_reduce", 32, 4, tuple((size, us, us) for size, us in times.items()))
    log = "\n".join(("all_reduce_perf", *devices(slow), *written(slow, head=False)))
    sent = {"system": "dgx-h100", "count": "4", "log_name": ["a.txt"], "log_text": [log]}
    put = server.ask.post("/ask/doctor", data=sent)
    page = unescape(server.ask.get(str(put.headers["location"])).text)
    assert "proof column" not in page
    assert "of what such links reach: this log cannot distinguish them" in page
    [address] = re.findall(r'href="(/ask/tests\?on=[0-9a-f]{64})"', page)
    filled = unescape(server.ask.get(address).text)
    assert "Which tests should be run on this machine?" in filled
    assert ">Print the tests</button>" in filled
    assert 'value="dgx-h100" selected' in filled
    assert "all_reduce_perf" not in filled
    [only] = re.findall(r'name="only" value="([^"]*)"', filled)
    form = {"system": "dgx-h100", "count": "4", "only": only}
    assert server.ask.post("/ask/tests/check", data=form).json()["facts"]["only"] == "2 tests"
    put = server.ask.post("/ask/tests", data=form)
    page = unescape(server.ask.get(str(put.headers["location"])).text)
    assert set(re.findall(r"(?:gpu|node|all)-[a-z0-9-]+ring-simple", page)) == {*only.split(", ")}
    assert "would decide" not in page


def test_without_logs_the_tests_of_the_chosen_machine_are_offered(
    server: Served,
) -> None:
    """A link led to the tests of the machine that the form begins with."""
    page = server.ask.get("/ask/doctor").text
    [to] = re.findall(r'formaction="([^"]+)"', page)
    names = dict.fromkeys(re.findall(r'<(?:input|textarea|select)[^>]* name="(\w+)"', page), "")
    put = server.ask.post(to, data={**names, "system": "p2-a100", "count": "3"})
    shown = server.ask.get(str(put.headers["location"])).text
    assert "p2-a100:3" in shown
    assert page.index('class="main"') < page.index("formaction"), "which Enter presses"


def test_a_test_that_there_is_not_is_reported() -> None:
    assert "one of: gpu-alone" in wrong("tests", only="gpu-alone-all")["only"]


def test_everything_that_can_be_asked_is_a_link_of_every_page(server: Served) -> None:
    """In the bar, and not below a menu; the first page says what each is."""
    page = unescape(server.ask.get("/jobs").text)
    bar, first = page.partition("</nav>")[0], unescape(server.ask.get("/").text)
    paths = ("/", "/plan", *(f"/ask/{name}" for name in FORMS if name != "tests"), "/compare")
    for path in paths:
        assert f'<a href="{path}"' in bar
        assert f'<li><a href="{path}">' in first
    assert '<li><a href="/ask/tests">' in first
    for name in FORMS:
        shown = server.ask.get(f"/ask/{name}").text.partition("</nav>")[0]
        assert shown.count('aria-current="page"') == 1


def test_measured_predicted_and_bound_are_drawn(server: Served, answers: dict[str, str]) -> None:
    page = server.ask.get(answers["doctor"]).text
    assert page.count('class="curve"') == 1
    for name in ("measured", "predicted", "bound"):
        assert f">{name}</text>" in page


def test_several_machines_over_sizes_are_lines_of_one_drawing() -> None:
    form = fields("sweep", systems="p2-a100:2 p2-a100:2", bytes="1MiB..64MiB", max_steps="1")
    given, _ = question(FORMS["sweep"], form)
    body = VERBS["sweep"].answer(parse_question(VERBS["sweep"].question, given), Watcher()).body
    view = view_of_answer("sweep", body)
    assert view is not None
    assert view.headline == "p2-a100 (1) has the highest bus bandwidth"
    assert [heading.partition(" against")[0] for heading, _ in view.drawings] == [
        "Bus bandwidth",
        "Speed-up",
    ]
    for _, drawn in view.drawings:
        assert drawn.count("<polyline") == 2
        assert ">p2-a100 (2)</text>" in drawn


def test_a_verb_without_a_form_here_has_none(server: Served) -> None:
    assert server.ask.get("/ask/lower").status_code == 404
    assert server.ask.post("/ask/lower", data={}).status_code == 404


def _top(server: Served, **changed: Any) -> str:
    given = {"system": "p2-a100:2", "axes": {"data": 32}, "reduce": ["data"], "k": 1}
    given |= {"max_steps": 2, "stripes": False, **changed}
    reply = server.ask.post("/v1/top", json=given, headers={"Prefer": "wait=60"})
    return str(reply.headers["content-location"]).removeprefix("/v1/answers/")


def test_two_answers_are_shown_side_by_side_with_their_differences(server: Served) -> None:
    first, second = _top(server), _top(server, bytes=2**20)
    one = unescape(server.ask.get(f"/compare?of={first}").text)
    assert f'<option value="{second}"' in one
    assert f'href="/compare?of={first}"' in server.ask.get(f"/answers/{first}").text
    both = unescape(server.ask.get(f"/compare?of={first}&of={second}").text)
    assert both.count('<section class="verdict"') == 2
    assert "all-reduce of 1 MiB over data on p2-a100:2" in both
    rows = re.findall(r"<tr>(.*?)</tr>", both, re.DOTALL)
    [sizes] = [row for row in rows if ">bytes<" in row]
    assert re.findall(r"<td>(.*?)</td>", sizes) == ["bytes", "1 GiB", "1 MiB"]
    assert re.search(r"rank 1.*0\.00\d*x", both, re.DOTALL)
    assert 'class="curve"' in both


def _preselected(server: Served, key: str) -> list[str]:
    """What both sides are when one comes from an answer."""
    page = unescape(server.ask.get(f"/compare?of={key}").text)
    names = re.findall(r"<option value=.*?>(.*?)</option>", page)
    assert len({*names}) == len(names) / 2
    return re.findall(r'<option value="([0-9a-f]{64})" selected', page)


def test_the_other_side_is_the_latest_on_the_same_machine(server: Served) -> None:
    keys = [_top(server, bytes=size) for size in (2**21, 2**22)]
    elsewhere = _top(server, system="dgx-a100:4", bytes=2**21)
    assert _preselected(server, keys[1]) == [keys[1], keys[0]]
    assert _preselected(server, keys[0]) == [keys[0], keys[1]]
    assert _preselected(server, elsewhere)[0] == elsewhere
    ranges = [_top(server, bytes=[2**20, size], max_steps=1) for size in (2**21, 2**22)]
    assert _preselected(server, keys[1]) == [keys[1], keys[0]]
    assert _preselected(server, ranges[0]) == ranges


def test_answers_that_differ_only_in_a_text_are_named_by_their_time(server: Served) -> None:
    text = describe_system(load("p2-a100:2"))
    keys = [
        _top(server, system={"name": "ours.toml", "text": f"# {number}\n{text}"})
        for number in range(2)
    ]
    assert _preselected(server, keys[0]) == keys


def test_bars_are_called_by_what_the_answers_differ_in(server: Served) -> None:
    of = [_top(server), _top(server, system="dgx-a100:4")]
    page = server.ask.get(f"/compare?of={of[0]}&of={of[1]}").text
    assert re.findall(r">(p2-a100:2|dgx-a100:4|first|second)</text>", page) == [
        "p2-a100:2",
        "dgx-a100:4",
    ]
    same = server.ask.get(f"/compare?of={of[0]}&of={_top(server, bytes=2**20)}").text
    assert re.findall(r">(p2-a100:2|1 GiB|1 MiB|first)</text>", same) == ["1 GiB", "1 MiB"]


def test_where_the_default_is_kept_the_defaults_are_compared_first(server: Served) -> None:
    """Bars were of the best rows, though both verdicts keep the default."""
    of = [_top(server, system="dgx-h100:4", max_steps=3, bytes=size) for size in (2**34, 2**35)]
    replies = [
        judge("top").validate_python(server.ask.get(f"/v1/answers/{key}").json()["answer"])
        for key in of
    ]
    took = [min(one.baseline_seconds for one in reply.answers) for reply in replies]
    assert all(reply.answers[0].seconds < at for reply, at in zip(replies, took, strict=True))
    assert [recommend(reply) for reply in replies] == [
        Recommendation(how="the default, nvls_tree", seconds=least) for least in took
    ]
    page = unescape(server.ask.get(f"/compare?of={of[0]}&of={of[1]}").text)
    drawn = page.partition("Time of the recommended programs")[2].partition("</svg>")[0]
    assert all(f">{format_duration(least)}</text>" in drawn for least in took)
    first = page.partition("to take now")[2].partition("rank 1")[0]
    assert f"{took[1] / took[0]:.2f}x" in first


def test_what_gains_is_to_be_taken_now_as_it_is_run() -> None:
    system = precise_text("p2-a100:4")
    given = {"system": system, "axes": {"data": 64}, "reduce": ["data"], "max_steps": 3}
    question = parse_question(VERBS["top"].question, {**given, "k": 1, "stripes": False})
    reply = judge("top").validate_python(VERBS["top"].answer(question, Watcher()).body)
    [best] = reply.answers
    assert recommend(reply) == Recommendation(how=best.program, seconds=best.runtime_seconds)


def test_two_ranges_of_sizes_are_drawn_over_each_other(server: Served) -> None:
    keys = [_top(server, bytes=[2**20, size], max_steps=1) for size in (2**24, 2**25)]
    page = server.ask.get(f"/compare?of={keys[0]}&of={keys[1]}").text
    assert page.count('class="curve"') == 2
    assert page.count("<polyline") == 4


def test_an_answer_beside_itself_is_the_same(server: Served) -> None:
    key = _top(server)
    assert "The two answers are the same" in server.ask.get(f"/compare?of={key}&of={key}").text


def test_answers_that_cannot_be_distinguished_line_by_line_are_reported(
    server: Served, answers: dict[str, str]
) -> None:
    cost, top = answers["cost"][9:], _top(server)
    page = server.ask.get(f"/compare?of={cost}&of={top}").text
    assert "this is no answer of top or plan" in page
    assert server.ask.get(f"/compare?of={'0' * 64}").status_code == 404
    assert server.ask.get("/compare?of=x").status_code == 404


def test_jobs_are_ticked_to_be_compared(server: Served, answers: dict[str, str]) -> None:
    listed = server.ask.get("/jobs").text
    ticks = re.findall(r'<input type="checkbox" form="compare" name="of" value="(.*?)"', listed)
    assert answers["cost"][9:] in ticks


def test_every_linked_term_is_explained_on_the_help_page(server: Served) -> None:
    told = server.ask.get("/help").text
    for one in TERMS.values():
        assert f'id="{one.anchor}"' in told
    for path in ("/", "/plan", f"/answers/{_top(server)}"):
        words = re.findall(r'<a class="term" href="/help#([a-z-]+)"', server.ask.get(path).text)
        assert words
        assert set(words) <= {one.anchor for one in TERMS.values()}


def test_each_group_form_links_once_to_its_explanation(
    server: Served,
) -> None:
    page = server.ask.get(f"/answers/{_top(server)}").text
    table = page[page.index('<table class="ranking">') : page.index("</table>")]
    found = re.findall(r'href="/help#([a-z]+)"[^>]*>([^<]+)</a></code>', table)
    assert dict(found)["inside"].endswith(" inside")
    assert len(dict(found)) == len(found)
    beside = page[page.index('<section id="chosen"') :]
    assert re.search(r'href="/help#inside" title="The devices of each unit take a step', beside)


def test_every_form_of_a_step_has_its_meaning_in_the_help() -> None:
    told = set[str]()
    forms = [cls(("pod", "gpu")) if cls is Across else cls() for cls in get_args(Form)]
    for form in forms:
        text = str(ProgramInstruction(Collective.ALL_REDUCE, "node", form))
        [word] = re.findall(r"/help#([a-z]+)", link_step(text, told))
        assert word in told
        assert link_step(text, told) == text
    assert len(told) == len(forms)
    assert told <= set(TERMS)
    assert link_step("(nothing to do)", told) == "(nothing to do)"


def test_every_page_of_the_documentation_that_help_names_is_there() -> None:
    docs = Path(__file__).parents[4] / "docs"
    assert all((docs / f"{one.page}.md").exists() for one in TERMS.values())


def test_the_documentation_is_served_and_its_links_lead_somewhere(server: Served) -> None:
    seen, waiting = set[str](), ["/docs/index.md"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        found = server.ask.get(path)
        assert found.status_code == 200, path
        if path.endswith(".md"):
            assert found.text.count("<h1") == 1, path
            assert "<script" not in found.text.partition("<main")[2]
            for link in re.findall(r'(?:href|src)="([^"]+)"', found.text.partition("<main")[2]):
                where = urldefrag(urljoin(path, unescape(link)))[0]
                if where.startswith("/docs/") and where not in {*seen, *waiting}:
                    waiting.append(where)
    assert len(seen) > 30
    assert server.ask.get("/docs/../pyproject.toml").status_code == 404
    assert server.ask.get("/docs/nothing.md").status_code == 404
