"""In a real browser: a row beside its ranking, timelines that zoom, Perfetto, pictures, logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")
pytest.importorskip("playwright", reason="needs playwright, to drive a browser")

from browsing import CHROMIUM, browsing, until
from serving import Served, served
from synth.service.http.examples import EXAMPLES

if not CHROMIUM.exists():
    pytest.skip(f"needs a browser at {CHROMIUM}", allow_module_level=True)

SMALL = {"system": "dgx-h100:1", "axes": {"data": 4, "model": 2}, "reduce": ["data"], "k": 3}
TORUS = {"system": "tpu-v4-pod-slice:4x4x4", "axes": {"data": 64}, "reduce": ["data"], "k": 1}
LOG = EXAMPLES["doctor"]["files"][0]["text"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("decision"), wait_seconds=20.0) as found:
        yield found


def answered(server: Served, question: dict[str, Any]) -> str:
    reply = server.ask.post("/v1/top", json=question, headers={"Prefer": "wait=60"})
    return str(reply.headers["content-location"]).removeprefix("/v1")


@pytest.fixture(scope="module")
def answer(server: Served) -> str:
    return answered(server, SMALL)


SEEN = """table => [table.innerText, ...[...table.querySelectorAll("td")].map(
  (cell) => getComputedStyle(cell, "::before").content)].join(" ")"""
"""What a table shows, with what its style writes before cells."""


@pytest.mark.parametrize(("width", "beside"), [(1440, True), (1024, True), (390, False)])
def test_a_row_is_in_full_beside_the_ranking_and_on_a_telephone_below(
    browser: Any, server: Served, answer: str, width: int, beside: bool
) -> None:
    size = {"width": width, "height": 900}
    with browsing(browser, server.url, viewport=size, reduced_motion="reduce") as seen:
        page = seen.page
        page.goto(answer)
        page.locator("[data-answer='1']").click()
        page.wait_for_selector("#chosen-title:has-text('Answer 2')")
        ranked, detail = (page.locator(one).bounding_box() for one in (".ranked", "#chosen"))
        assert (detail["x"] >= ranked["x"] + ranked["width"]) == beside
        assert (detail["y"] >= ranked["y"] + ranked["height"]) == (not beside)
        assert -1 <= detail["y"] < 900
        table = page.locator(".ranked table").first.evaluate(SEEN).lower()
        assert "bus bandwidth" in table, "named, folded, stacked or not"
        assert "limited by" in table, "named, folded, stacked or not"
        if beside:  # what is pasted is seen without scrolling inside the box
            above = "at => at.offsetTop + at.offsetHeight <= at.closest('#chosen').clientHeight"
            page.evaluate("document.querySelector('#chosen').scrollTop = 0")
            assert page.locator("#chosen a[href='#code-title']").evaluate(above)
        page.locator("#code").scroll_into_view_if_needed()
        page.wait_for_selector("#code pre")
        said = page.locator("#chosen").text_content()
        assert all(word in said for word in ("Placement", "How to get it", "Bus bandwidth"))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.check()


@pytest.mark.parametrize("width", [1440, 390])
def test_code_takes_its_height_once_all_is_asked_for(
    browser: Any, server: Served, answer: str, width: int
) -> None:
    """A box of a few lines that scrolled by itself: of 500 lines one saw twelve at a time."""
    with browsing(browser, server.url, viewport={"width": width, "height": 900}) as seen:
        page = seen.page
        page.goto(answer)
        page.locator("#code").scroll_into_view_if_needed()
        page.wait_for_selector("#code pre")
        pre = page.locator("#code pre").first
        own = "at => [getComputedStyle(at).overflowY, at.scrollHeight - at.clientHeight]"
        assert pre.evaluate(own)[0] == "hidden", "only the beginning, and no second scroll bar"
        button = page.get_by_role("button", name="Show all")
        lines = pre.text_content().count("\n")
        assert button.text_content() == f"Show all {lines} lines"
        button.click()
        assert pre.evaluate(own)[1] <= 1
        assert pre.bounding_box()["height"] > 15 * lines
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.check()


def test_nothing_moves_what_is_looked_at_until_sizes_are_asked_for(
    browser: Any, server: Served, answer: str
) -> None:
    with browsing(browser, server.url, viewport={"width": 390, "height": 844}) as seen:
        page = seen.page
        page.goto(answer)
        until(page, "Boolean(document.querySelector('#topology').machine)")
        where = "document.querySelector('#machine-title').getBoundingClientRect().y + scrollY"
        page.click("a[href='#machine-title']")
        page.wait_for_selector("#code pre")  # what does come by itself has come
        at = page.evaluate(where)
        until(page, f"Math.abs({where} - scrollY) < 2")
        page.locator("#sizes").scroll_into_view_if_needed()
        page.locator("#machine-title").scroll_into_view_if_needed()
        page.wait_for_timeout(500)
        assert page.evaluate(where) == at
        assert page.locator("#sizes svg").count() == 0
        page.click("#sizes button")
        page.wait_for_selector("#sizes svg.curve")
        seen.check()


def test_a_programs_timeline_is_looked_at_closely(
    browser: Any, server: Served, answer: str
) -> None:
    with browsing(browser, server.url) as seen:
        page = seen.page
        page.goto(answer)
        page.locator("[data-part]").scroll_into_view_if_needed()
        page.wait_for_selector("svg.timeline .bars")
        count = page.locator("svg.timeline .bars .bar").count()
        assert count > 8
        names = page.locator("svg.timeline .name")
        assert names.all_text_contents() == ["1 all-reduce"] * 8
        whole = page.locator("svg.timeline .bars").get_attribute("viewBox").split()
        page.get_by_role("button", name="Closer").last.click()
        page.get_by_role("button", name="Later").click()
        closer = page.locator("svg.timeline .bars").get_attribute("viewBox").split()
        assert float(closer[2]) == float(whole[2]) / 2
        assert float(closer[0]) == float(whole[0]) + float(whole[2]) / 2
        assert page.locator("svg.timeline .from").is_visible()
        assert names.count() == 8
        assert page.evaluate(INSIDE)
        page.locator("svg.timeline").press("0")
        assert page.locator("svg.timeline .bars").get_attribute("viewBox").split() == whole
        assert page.locator("svg.timeline .bars .bar").count() == count
        seen.check()


INSIDE = """() => { const box = (one) => one.getBoundingClientRect();
  const view = box(document.querySelector('svg.timeline .bars'));
  return [...document.querySelectorAll('svg.timeline .name')].map(box)
    .every(one => one.left >= view.left && one.right <= view.right) }"""


def test_typed_values_survive_the_back_button_but_not_a_new_form(
    browser: Any, server: Served
) -> None:
    with browsing(browser, server.url) as seen:
        page = seen.page
        page.goto("/")
        page.click("#add")
        page.locator("#axes [name=axis_name]").last.fill("expert")
        page.locator("#axes [name=reduce]").nth(1).check()
        page.click("#add-sent")
        page.fill("#sent [name=sent_reduce]", "expert")
        page.fill("#times", "4")
        page.fill("#bytes", "3MiB")
        page.click("summary:has-text('More options')")
        page.fill("#segments", "2")
        typed = "Object.fromEntries(new FormData(ask))"
        given = page.evaluate(typed)
        until(page, "history.state?.typed.some(([name, value]) => value === '2')")
        page.click("nav >> text=Jobs")
        page.wait_for_url("**/jobs")
        page.go_back()
        page.wait_for_selector("#ask")
        until(page, "ask.elements.bytes.value === '3MiB'")
        assert page.evaluate(typed) == given
        assert page.locator("#segments").is_visible()
        page.click("nav >> text=Ask")
        page.wait_for_selector("#ask")
        assert page.input_value("#bytes") != "3MiB"
        seen.check()


PERFETTO = """<!doctype html><script>addEventListener("message", (event) => {
  if (event.data === "PING") event.source.postMessage("PONG", event.origin);
  else window.got = { title: event.data.perfetto.title,
    text: new TextDecoder().decode(event.data.perfetto.buffer) };
});</script>"""


def test_perfetto_is_opened_with_the_trace(browser: Any, server: Served, answer: str) -> None:
    """In Perfetto's place stands a page that answers as its documents say."""
    with browsing(browser, server.url) as seen:
        page = seen.page
        shown = {"content_type": "text/html", "body": PERFETTO}
        page.context.route("https://ui.perfetto.dev/", lambda route: route.fulfill(**shown))
        page.goto(answer)
        page.locator("[data-part]").scroll_into_view_if_needed()
        page.wait_for_selector("[data-trace]")
        with page.expect_popup() as opened:
            page.get_by_role("button", name="Open in Perfetto").click()
        until(opened.value, "Boolean(window.got)")
        got = opened.value.evaluate("window.got")
        assert got["title"] == "answer 1"
        assert json.loads(got["text"])["traceEvents"]
        seen.check()


def test_a_torus_is_drawn_as_one_and_a_telephone_has_fewer_devices(
    browser: Any, server: Served
) -> None:
    torus = answered(server, TORUS)
    with browsing(browser, server.url) as seen:
        page = seen.page
        page.goto(torus)
        until(page, "Boolean(document.querySelector('#topology').machine)")
        places = page.evaluate(
            "topology.machine.nodes(\"[kind = 'device']\").map(n => n.position()).slice(0, 16)"
        )
        assert len({one["x"] for one in places}) == len({one["y"] for one in places}) == 4
        assert page.evaluate("topology.machine.edges('.wrap').length") == 4 * 8 + 1
        assert page.evaluate("topology.machine.edges().length") == 4 * 32 + 4
        above = """topology.machine.edges('.wrap').every(one => {
          const [a] = one.segmentPoints();
          const at = one.source().position();
          return a.y < at.y + 2 && a.x > at.x - 2 && Math.hypot(a.x - at.x, a.y - at.y) > 20 })"""
        assert page.evaluate(above)
        seen.check()
    large = answered(
        server,
        {"system": "superpod-h100-oversubscribed:8", "axes": {"a": 1024}, "reduce": ["a"], "k": 1}
        | {"max_steps": 1, "stripes": False},
    )
    for width, devices, pods in ((1024, 128, 2), (390, 32, 1)):
        with browsing(browser, server.url, viewport={"width": width, "height": 800}) as seen:
            page = seen.page
            page.goto(large)
            until(page, "Boolean(document.querySelector('#topology').machine)")
            drawn = "topology.machine.nodes(\"[kind = 'device']\").length"
            assert page.evaluate(drawn) == devices
            assert f"{pods} of 8 pods" in page.locator("#left-out").text_content()
            assert page.evaluate("topology.machine.zoom()") > (0.9 if width == 390 else 0.4)
            before = page.evaluate("topology.machine.zoom()")
            page.locator("[data-zoom='1.5']").click()
            assert page.evaluate("topology.machine.zoom()") > before
            seen.check()


def test_logs_are_dropped_and_diagnosed(browser: Any, server: Served) -> None:
    with browsing(browser, server.url) as seen:
        page = seen.page
        page.goto("/ask/doctor")
        files = [
            {"name": f"run{n}.csv", "mimeType": "text/csv", "buffer": LOG.encode()} for n in (1, 2)
        ]
        page.set_input_files("#log-files", files)
        until(page, "document.querySelector('#logs-told').textContent === '2 tables, 8 rows'")
        page.get_by_role("button", name="Remove").last.click()
        until(page, "document.querySelector('#logs-told').textContent === '1 table, 4 rows'")
        page.get_by_role("button", name="Check the logs").click()
        page.wait_for_selector("svg.curve")
        assert page.locator("#verdict-title").text_content()
        seen.check()


def test_forms_and_comparisons_fit_a_telephone(browser: Any, server: Served, answer: str) -> None:
    key = answer.removeprefix("/answers/")
    with browsing(browser, server.url, viewport={"width": 360, "height": 740}) as seen:
        for path in (
            *(f"/ask/{verb}" for verb in ("sweep", "cost", "plan", "doctor", "calibrate")),
            *("/help", f"/compare?of={key}&of={key}"),
        ):
            seen.page.goto(path)
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360, path
        seen.check()
