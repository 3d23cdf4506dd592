"""The page in a real browser: by keyboard alone, in dark, narrow, without scripts and by ear."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("playwright", reason="needs playwright, to drive a browser")

from browsing import CHROMIUM, Browsing, browsing, until
from hierarchies import format_ranges
from hierarchies.files.writing import describe_system
from machines import calibrated
from serving import Served, StuckWorkers, served
from synth.show.report.colours import paints

if not CHROMIUM.exists():
    pytest.skip(f"needs a browser at {CHROMIUM}", allow_module_level=True)

SMALL = {"system": "dgx-h100:1", "axes": {"data": 4, "model": 2}, "reduce": ["data"], "k": 3}
WIDE = {"system": "superpod-h100-oversubscribed:8", "axes": {"a": 1024}, "reduce": ["a"]}
LONG = {**WIDE, "k": 1000, "across": True, "exact": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("browser"), wait_seconds=20.0) as found:
        yield found


@pytest.fixture
def seen(browser: Any, server: Served) -> Iterator[Browsing]:
    with browsing(browser, server.url) as found:
        yield found
        found.check()


@pytest.fixture(scope="module")
def answer(server: Served) -> str:
    found = server.ask.post("/v1/top", json=SMALL, headers={"Prefer": "wait=60"})
    return str(found.headers["content-location"]).removeprefix("/v1")


def tab_to(page: Any, selector: str, most: int = 60) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab")


def whole(page: Any) -> None:
    """Everything that comes when it is asked for, or scrolled to, is there."""
    page.click("#sizes button")
    for place in ("#sizes", "[data-part]", "#code"):
        page.locator(place).scroll_into_view_if_needed()
    page.wait_for_selector("#sizes svg.curve")
    page.wait_for_selector("svg.timeline")
    page.wait_for_selector("#code pre")


def arrived(page: Any) -> None:
    """A page with a fragment is loaded and has gone to it: going there takes the focus away."""
    page.wait_for_load_state()
    page.evaluate("() => new Promise(then => requestAnimationFrame(() => setTimeout(then)))")


def test_from_the_form_to_code_by_keyboard_alone(seen: Browsing) -> None:
    page, press = seen.page, seen.page.keyboard.press
    page.goto("/")
    tab_to(page, ".skip")
    tab_to(page, "#count")
    press("Control+A")
    page.keyboard.type("1")
    tab_to(page, "input[name=axis_name]")
    tab_to(page, "input[name=axis_size]")
    until(page, "document.querySelector('#axes-said').textContent")
    press("Control+A")
    page.keyboard.type("4")
    for second in ("model", "2"):
        tab_to(page, "input[name^=axis_]")
        page.keyboard.type(second)
    until(page, "document.querySelector('#axes-told').textContent.startsWith('product 8 of 8')")
    assert page.locator("#axes-said").text_content() == ""
    tab_to(page, "#k")
    press("Control+A")
    page.keyboard.type("3")
    tab_to(page, "button.main")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("Enter")
    page.wait_for_url(re.compile("/answers/[0-9a-f]{64}$"))
    tab_to(page, "[data-answer='1']")
    press("Enter")
    page.wait_for_selector("#chosen-title:has-text('Answer 2')")
    assert page.locator("tr[aria-current] [data-answer]").get_attribute("data-answer") == "1"
    assert page.url.endswith("?answer=1")
    until(page, "document.querySelector('#chosen-said').textContent.startsWith('Answer 2: ')")
    tab_to(page, "#topology")
    press("ArrowRight")
    press("ArrowRight")
    assert "device 1 (node0/gpu1): " in page.locator("#device-said").text_content()
    tab_to(page, "[role=tab]")
    page.wait_for_selector("#code pre")
    press("ArrowRight")
    page.wait_for_selector("#tab-jax[aria-selected=true]")
    page.wait_for_selector("#code:has-text('jax')")


def test_a_result_has_its_plot_timeline_code_and_trace(seen: Browsing, answer: str) -> None:
    page = seen.page
    page.goto(answer)
    whole(page)
    assert page.locator("svg.timeline g.row.device").count() == 8
    assert page.locator("svg.timeline g.row.link").count() == 2
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the trace").click()
    assert download.value.suggested_filename == "trace.json"
    page.get_by_role("tab", name="mpi4py").click()
    page.wait_for_selector("#code:has-text('mpi4py')")


def test_the_last_clicked_tab_wins_over_late_replies(seen: Browsing, answer: str) -> None:
    """The first tab fills itself when it comes into sight: its file may come after another's."""
    page, late = seen.page, list[Any]()
    page.route("**/code/torch?*", lambda route: late.append(route))
    page.goto(answer)
    page.locator("#code").scroll_into_view_if_needed()
    page.wait_for_selector("#tab-torch[aria-selected=true]")
    page.click("#tab-mpi")
    page.wait_for_selector("#code:has-text('mpi4py')")
    [first] = late
    with page.expect_response("**/code/torch?*"):
        first.continue_()
    arrived(page)
    assert "mpi4py" in page.text_content("#code")
    assert page.get_attribute("#tab-mpi", "aria-selected") == "true"
    assert page.get_attribute("#code", "aria-busy") is None


def test_devices_of_one_colour_form_a_group_shown_by_a_tap(seen: Browsing, answer: str) -> None:
    """As pictures of plans have it: those that hold the same coordinates on the other axes."""
    page = seen.page
    page.goto(answer)
    until(page, "Boolean(document.querySelector('#topology').machine)")
    assert page.locator("#axis-choice option:checked").text_content() == "data"
    read = "topology.machine.nodes('[kind = \"device\"]').map(n => n.data())"
    rows = page.locator("table.devices tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    for number, (name, other) in enumerate((("data", "model"), ("model", "data"))):
        page.select_option("#axis-choice", str(number))
        assert f"they have the same coordinates on {other}" in page.text_content("#groups-said")
        found = page.evaluate(read)
        assert [node["device"] for node in found] == list(range(8))
        together: dict[str, list[str]] = {}
        for node, row in zip(found, rows, strict=True):
            together.setdefault(row[3 - number], []).append(row[0])
            assert node["fill"] == paints(8)[int(row[3 - number])].fill
            assert node["label"] == f"{node['device']}\n{row[2]},{row[3]}"
        page.evaluate("void topology.machine.nodes(\"[kind = 'device']\")[5].emit('tap')")
        peers = together[rows[5][3 - number]]
        assert page.evaluate("topology.machine.nodes('.peer').map(n => n.data('device'))") == [
            int(one) for one in peers
        ]
        said = format_ranges([int(one) for one in peers], 16)
        assert page.text_content("#device-said").endswith(f"Its group over {name}: {said}")


def test_a_rank_that_is_folded_away_is_found_in_the_picture(seen: Browsing, server: Served) -> None:
    axes = {"axes": {"data": 128, "model": 8}, "reduce": ["data"]}
    asked = {"system": "dgx-h100:128", **axes, "k": 1, "max_steps": 1, "stripes": False}
    found = server.ask.post("/v1/top", json=asked, headers={"Prefer": "wait=60"})
    page = seen.page
    page.goto(found.headers["content-location"].removeprefix("/v1"))
    drawn = "() => topology.machine.nodes('[device = 700]').length"
    assert page.evaluate(drawn) == 0
    page.select_option("#axis-choice", label="model")
    page.fill("#rank", "700")
    page.press("#rank", "Enter")
    page.wait_for_selector("#rank-said:has-text('node87/gpu4')")
    until(page, "() => topology.machine.nodes('.here').length === 1")
    assert page.evaluate("() => topology.machine.nodes('.here').data('device')") == 700
    assert "Its group over model: 696-703" in page.inner_text("#device-said")
    assert page.evaluate("document.activeElement.id") == "rank"
    assert page.url.endswith("?answer=0&rank=700")
    page.reload()
    assert page.evaluate(drawn) == 1


def test_errors_appear_while_typing(seen: Browsing) -> None:
    page = seen.page
    page.goto("/")
    page.fill("#bytes", "1 parsec")
    page.wait_for_selector("#bytes[aria-invalid=true]")
    assert "the size '1 parsec' cannot be read" in page.locator("#bytes-said").text_content()
    assert page.locator("#bytes").get_attribute("aria-describedby") == "bytes-said"
    page.fill("#bytes", "1MiB")
    page.wait_for_selector("#bytes:not([aria-invalid])")
    page.click("#add")
    assert page.locator("#axes tr").count() == 4
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Name of axis 4"
    page.click("button.remove >> nth=3")
    assert page.locator("#axes tr").count() == 3
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Name of axis 3"


def two_axes(page: Any) -> None:
    """The form, with a second axis of the machine."""
    page.goto("/")
    for name, value in (("name", "model"), ("size", "4")):
        page.locator(f"#axes [name=axis_{name}]").nth(1).fill(value)
    page.locator("#axes [name=axis_size]").first.fill("8")


def send(page: Any, over: str) -> None:
    """Another collective in the form, over these axes."""
    page.get_by_role("button", name="Add another collective").click()
    page.fill("#sent tr:last-child [name=sent_reduce]", over)


def test_one_collective_is_asked_unless_another_is_added(seen: Browsing) -> None:
    page = seen.page
    page.goto("/")
    assert not page.locator("#others").is_visible()
    sent = "[...new FormData(document.querySelector('#ask')).keys()]"
    assert not [name for name in page.evaluate(sent) if name.startswith("sent_")]
    send(page, "data")
    assert page.locator("#others").is_visible()
    page.fill("#times", "3")
    page.click("#sent button.remove")
    assert not page.locator("#others").is_visible()
    assert page.locator("#times").input_value() == "", "nothing to weigh it against is left"
    assert page.evaluate("document.activeElement.id") == "add-sent"


def test_an_axis_takes_along_what_is_sent_over_it(seen: Browsing) -> None:
    page = seen.page
    two_axes(page)
    send(page, "model")
    send(page, "data, model")
    page.click("#axes button.remove >> nth=1")
    assert page.locator("#axes [name=axis_name]").first.input_value() == "data"
    over = page.locator("#sent [name=sent_reduce]")
    assert [one.input_value() for one in over.all()] == ["data"]
    assert over.first.get_attribute("aria-label") == "Axes of collective 2"
    page.fill("#axes tr:last-child [name=axis_name]", "data")
    page.click("#axes button.remove >> nth=1")
    assert over.first.input_value() == "data", "another axis is called so"


def test_an_axis_that_is_renamed_keeps_what_is_sent_over_it(seen: Browsing) -> None:
    page = seen.page
    two_axes(page)
    send(page, "model")
    over = page.locator("#sent [name=sent_reduce]")
    name = page.locator("#axes [name=axis_name]").nth(1)
    name.press("Control+A")
    name.press_sequentially("data2")  # for a moment it is called as another is
    assert over.first.input_value() == "data2"
    over.first.fill("modl")
    # All fields are wrong for the moment in which two axes have one name.
    until(page, "document.querySelectorAll('#sent [aria-invalid=true]').length === 1")
    wrong = page.locator("#sent [aria-invalid=true]")
    assert [one.get_attribute("aria-label") for one in wrong.all()] == ["Axes of collective 2"]


def test_what_else_is_sent_is_a_row_of_its_own(seen: Browsing) -> None:
    page = seen.page
    two_axes(page)
    send(page, "model")
    page.fill("#sent [name=sent_bytes]", "64MiB")
    page.click("#add-sent")
    label = "Axes of collective 3"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == label
    page.keyboard.type("modl")
    page.wait_for_selector("#sent [aria-invalid=true]")
    page.click("#sent button.remove >> nth=-1")
    assert page.locator("#sent tr").count() == 1
    page.wait_for_selector("#sent :not([aria-invalid]) >> nth=0")
    until(page, "document.querySelector('#sent-said').textContent === ''")
    page.fill("#k", "1")
    page.get_by_role("button", name="Find the fastest").click()
    page.wait_for_url(re.compile("/answers/[0-9a-f]{64}$"))
    assert "2 collectives on dgx-h100" in page.locator("h1").text_content()
    assert page.locator(".ranking tbody tr").count() == 2


def test_a_description_is_read_from_a_file(seen: Browsing) -> None:
    page = seen.page
    page.goto("/")
    page.click("summary:has-text('Describe one of your own')")
    page.set_input_files(
        "#file", {"name": "x.toml", "mimeType": "text/plain", "buffer": b"name = 3"}
    )
    until(page, "document.querySelector('#system-said').textContent.includes('own.toml')")


def test_dark_and_light_are_chosen_and_remembered(browser: Any, server: Served) -> None:
    with browsing(browser, server.url, color_scheme="dark") as seen:
        page = seen.page
        ground = "getComputedStyle(document.body).backgroundColor"
        page.goto("/")
        assert page.evaluate(ground) == "rgb(18, 23, 29)"
        page.click("#theme")
        assert page.evaluate(ground) == "rgb(246, 247, 249)"
        page.goto("/jobs")
        assert page.evaluate(ground) == "rgb(246, 247, 249)"
        seen.check()


def test_nothing_is_wider_than_a_telephone(browser: Any, server: Served, answer: str) -> None:
    with browsing(browser, server.url, viewport={"width": 360, "height": 740}) as seen:
        for path in ("/", answer, "/jobs"):
            seen.page.goto(path)
            if path == answer:
                whole(seen.page)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert seen.page.evaluate(CUT) == [], path
        seen.check()


CUT = """() => [...document.querySelectorAll('.wide:has(.ranking, .jobs, .sent)')]
  .filter(one => one.checkVisibility() && one.scrollWidth > one.clientWidth)
  .map(one => one.getAttribute('aria-label'))"""
"""The lists that are cut on the right, where they are to be read without being moved."""


def test_without_scripts_everything_can_be_reached(browser: Any, server: Served) -> None:
    with browsing(browser, server.url, java_script_enabled=False) as seen:
        page = seen.page
        page.goto("/")
        assert not page.locator("#add").is_visible()
        assert page.locator("#sent [name=sent_reduce]").is_visible()
        page.get_by_role("button", name="Find the fastest").click()
        page.wait_for_url(re.compile("/answers/"))
        assert not page.locator("#topology").is_visible()
        page.locator("[data-answer='1']").click()
        page.wait_for_selector("#chosen-title:has-text('Answer 2')")
        page.get_by_role("link", name="Draw the timeline").click()
        page.wait_for_selector("svg.timeline")
        page.get_by_role("link", name="Back to the answer").click()
        page.get_by_role("link", name="PyTorch").click()
        page.wait_for_selector("pre:has-text('import torch')")
        seen.check()


def test_a_job_is_followed_to_its_answer(seen: Browsing, server: Served) -> None:
    given = {**SMALL, "bytes": 12345}
    job = server.ask.post("/v1/top", json=given, headers={"Prefer": "respond-async"}).json()
    seen.page.goto(f"/jobs/{job['id']}")
    seen.page.wait_for_url(re.compile("/answers/[0-9a-f]{64}"))


def test_a_job_is_cancelled_and_reports_it(seen: Browsing, server: Served) -> None:
    job = server.ask.post("/v1/top", json=LONG, headers={"Prefer": "respond-async"}).json()
    page = seen.page
    page.goto(f"/jobs/{job['id']}")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".status.cancelled, .notice:has-text('Partial')")


def test_the_best_so_far_comes_while_the_job_is_looked_at_and_stays(
    browser: Any, tmp_path: Path
) -> None:
    size = {"width": 360, "height": 740}
    with (
        served(tmp_path, StuckWorkers()) as server,
        browsing(browser, server.url, viewport=size) as seen,
    ):
        job = server.ask.post("/v1/top", json=SMALL, headers={"Prefer": "respond-async"}).json()
        page = seen.page
        page.goto(f"/jobs/{job['id']}")
        page.wait_for_selector("#best td code:has-text('all-reduce root inside')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.get_by_role("button", name="Cancel").click()
        page.wait_for_selector(".status.cancelled")
        assert page.locator("#best tbody tr").count() == 2  # the third is not told from the first
        seen.check()


SENT = [{"reduce": ["data"], "bytes": "1GiB"}, {"reduce": ["model"], "bytes": "1MiB", "times": 9}]
UNEVEN = {"axes": {"data": 15}, "reduce": ["data"], "without": ["node1/gpu3"]}
TABLE = {"name": "mine.toml", "text": describe_system(calibrated(), "made up")}
KINDS: dict[str, tuple[str, dict[str, Any], str, str, int, int]] = {
    "uneven": (
        *("top", {"system": "dgx-h100:2", **UNEVEN, "k": 3}),
        *("all-reduce of 1 GiB over data on dgx-h100", "left: 1 node of 8 gpu", 3, 16),
    ),
    "calibrated": (
        *("top", {"system": TABLE, "axes": {"data": 16, "model": 2}, "reduce": ["data"], "k": 5}),
        *("all-reduce of 1 GiB over data on known", "8 node x 4 gpu: 32 devices", 5, 32),
    ),
    "folded": (
        "top",
        {"system": "dgx-h100:64", "axes": {"d": 64, "m": 8}, "reduce": ["d"], "k": 3},
        *("all-reduce of 1 GiB over d on dgx-h100", "512 devices", 2, 128),
    ),
    "job": (
        "top",
        {"system": "dgx-h100:2", "axes": {"data": 4, "model": 4}, "collectives": SENT, "k": 2},
        *("2 collectives on dgx-h100", "exposed communication", 2, 16),
    ),
    "plan": (
        *("plan", {"system": "dgx-h100:2", "job": "mixtral-8x7b-experts", "k": 2}),
        *("Mixtral 8x7B", "exposed communication", 8, 16),
    ),
}
OVERLAPPING = """() => { const boxes = topology.machine.nodes("[kind = 'unit']").toArray();
  return boxes.flatMap((one, at) => boxes.slice(at + 1)
    .filter(other => other.data('parent') === one.data('parent'))
    .filter(other => { const a = one.boundingBox(), b = other.boundingBox();
      return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2 })
    .map(other => `${one.data('name')} ${other.data('name')}`)) }"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_answer_is_whole_in_light_and_dark(
    browser: Any, server: Served, kind: str
) -> None:
    verb, given, title, fact, rows, devices = KINDS[kind]
    reply = server.ask.post(f"/v1/{verb}", json=given, headers={"Prefer": "wait=60"})
    where = reply.headers["content-location"].removeprefix("/v1")
    for width, scheme in ((1100, "light"), (800, "dark")):
        size = {"width": width, "height": 900}
        with browsing(browser, server.url, viewport=size, color_scheme=scheme) as seen:
            page = seen.page
            page.goto(where)
            assert title in page.locator("h1").text_content()
            assert fact in page.locator(".facts").text_content()
            assert page.locator(".ranking [data-answer]").count() == rows
            until(page, "Boolean(document.querySelector('#topology').machine)")
            drawn = "topology.machine.nodes('[kind = \"device\"]').length"
            assert page.evaluate(drawn) == devices
            assert page.evaluate(OVERLAPPING) == []
            page.locator("#code").scroll_into_view_if_needed()
            page.wait_for_selector("#code pre, #code .notice")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if width == 1100:
                beyond = "one => one.scrollWidth - one.clientWidth"
                assert page.locator("[aria-label=Ranking]").evaluate(beyond) == 0
            seen.check()


@pytest.mark.slow
def test_a_model_is_planned_from_the_form_to_plan_against_plan(
    browser: Any, server: Served
) -> None:
    """What is wrong is said; then the answer is whole, wide and narrow, and its timeline moves."""
    pytest.importorskip("jax", reason="needs jax, of the extra 'jax'")
    with browsing(browser, server.url) as seen:
        page = seen.page
        page.goto("/plan")
        page.select_option("#model", "gpt2-tiny")
        page.fill("#sequence", "")
        page.fill("#count", "1")
        page.fill("#pin", "tensor=nine")
        until(page, "document.querySelector('#pin-said').textContent.includes('tensor=nine')")
        page.fill("#pin", "data=2 zero=1")
        until(page, "document.querySelector('#pin-said').textContent === ''")
        until(page, "document.querySelector('#system-told').textContent.endsWith('8 devices')")
        page.click("button.main")
        page.wait_for_url(re.compile("/answers/[0-9a-f]{64}$"))
        page.locator("#files [role=tab]").first.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        shown = page.locator("#files [role=tabpanel]:visible")
        assert shown.get_attribute("id") == "files-deepspeed"
        assert page.url.endswith("#files-deepspeed")
        assert shown.get_by_role("button", name="Copy").count() > 0
        page.select_option("#answer", "1")
        page.select_option("#against", "0")
        page.click("#beside button")
        page.wait_for_selector("#placement-title:has-text('plan 2')")
        arrived(page)
        before = page.locator("svg.step .until").first.text_content()
        page.locator("svg.step").first.press("+")
        after = page.locator("svg.step .until").all_text_contents()
        assert len(after) == 2
        assert before not in after
        assert len({*after}) == 1  # on one scale, both show the same part of the time
        assert page.evaluate(LABELLED) == page.evaluate(TWICE) == page.evaluate(DANGLING) == []
        levels = page.evaluate(HEADINGS)
        assert all(after <= one + 1 for one, after in pairwise(levels))
        where = page.url
        seen.check()
    size = {"width": 390, "height": 900}
    with browsing(browser, server.url, viewport=size, color_scheme="dark") as seen:
        for path in (where, "/plan"):
            seen.page.goto(path)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
        seen.check()


LABELLED = """() => [...document.querySelectorAll('input, select, textarea, button')]
  .filter(one => one.type !== 'hidden' && one.checkVisibility())
  .filter(one => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
  .map(one => one.outerHTML)"""
HEADINGS = "() => [...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))"
TWICE = """() => { const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at) }"""
DANGLING = """() => [...document.querySelectorAll('*')]
  .flatMap(one => ['aria-describedby', 'aria-labelledby', 'aria-controls']
    .flatMap(name => (one.getAttribute(name) ?? '').split(' ').filter(Boolean)))
  .filter(id => !document.getElementById(id))"""


def test_pages_can_be_found_ones_way_in_by_ear(seen: Browsing, answer: str) -> None:
    page = seen.page
    more = ("/ask/sweep", "/ask/doctor", "/ask/plan", "/help", "/docs/sizes.md", "/compare")
    for path in ("/", answer, "/jobs", f"/answers/{'0' * 64}", *more):
        page.goto(path)
        if path == answer:
            whole(page)
        assert page.locator("html[lang=en]").count() == 1
        assert page.locator("main").count() == page.locator("h1").count() == 1
        assert page.locator("header").count() == page.locator("footer").count() == 1
        assert page.evaluate(LABELLED) == []
        assert page.evaluate(TWICE) == []
        assert page.evaluate(DANGLING) == []
        levels = page.evaluate(HEADINGS)
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert page.locator("th:not([scope])").count() == 0
    seen.complaints[:] = [one for one in seen.complaints if "404" not in one]
