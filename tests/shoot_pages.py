"""Takes the pictures of the page that the documentation shows: python tests/shoot_pages.py."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from browsing import browsing, chromium, until
from patience import PATIENCE_SECONDS
from serving import Served, served

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
LOG = PICTURES.parent / "logs" / "sophia-all-gather-2x8.csv"
MODEL = {"model": "llama3-8b", "batch": 64, "sequence": 8192, "explain": "pipe=2"}
TORUS = {"system": "tpu-v4-pod-slice:4x4x4", "axes": {"data": 16, "model": 4}, "reduce": ["data"]}
MEASURED = {
    "system": "dgx-a100:2",
    "files": [{"name": LOG.name, "text": LOG.read_text(encoding="utf-8")}],
}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (
        "top",
        {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"], "k": 5},
    ),
    "stripes": ("top", {"system": "dgx-h100:4", "axes": {"data": 32}, "reduce": ["data"], "k": 3}),
    "plans": ("plan", {"system": "dgx-h100:2", **MODEL}),
    "doctor": ("doctor", MEASURED),
    "torus": ("top", {**TORUS, "k": 1}),
}
WIDE, COLOURS = 1180, 256


def main() -> None:
    """The form, a ranking with its curves, a machine, timelines, plans, jobs; some in dark."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), wait_seconds=PATIENCE_SECONDS) as server,
        chromium() as browser,
    ):
        places = {name: _asked(server, *one) for name, one in ASKED.items()}
        with browsing(browser, server.url, reduced_motion="reduce") as seen:
            _light(seen.page, places)
        how = {"color_scheme": "dark", "reduced_motion": "reduce"}
        with browsing(browser, server.url, **how) as seen:
            _dark(seen.page, places)


def _asked(server: Served, verb: str, question: dict[str, Any]) -> str:
    """The address of the page of an answer."""
    wait = {"Prefer": f"wait={PATIENCE_SECONDS:g}"}
    reply = server.ask.post(f"/v1/{verb}", json=question, headers=wait)
    return str(reply.headers["content-location"]).removeprefix("/v1")


def _light(page: Any, places: dict[str, str]) -> None:
    _go(page, "/", WIDE, 1060)
    until(page, "document.querySelector('#axes-told').textContent")
    _take(page, "form")
    _go(page, places["plain"], 1440, 1200)
    page.click("#sizes button")
    page.wait_for_selector("#sizes svg.curve")
    page.evaluate("scrollTo(0, 0)")
    _take(page, "ranking")
    _go(page, places["torus"], 1440, 1200)
    _at(page, "#machine-title")
    _take(page.locator("#topology"), "torus")
    _go(page, places["doctor"], WIDE, 860)
    _take(page, "doctor")
    _go(page, f"/compare?of={places['plain'][9:]}&of={places['stripes'][9:]}", WIDE, 860)
    _take(page, "compare")
    _go(page, places["plans"], WIDE, 1180)
    _take(page, "plans")
    page.locator("#tab-torchtitan-toml").click()
    _at(page, "#files-title")
    page.set_viewport_size({"width": WIDE, "height": 620})
    _take(page, "files")
    _go(page, "/jobs", WIDE, 480)
    _take(page, "jobs")


def _dark(page: Any, places: dict[str, str]) -> None:
    _go(page, places["stripes"], WIDE, 860)
    page.locator("[data-part]").scroll_into_view_if_needed()
    page.wait_for_selector("svg.timeline")
    for place, name in (("#machine-title", "machine-dark"), ("#steps-title", "timeline-dark")):
        _at(page, place)
        _take(page, name)
    _go(page, f"{places['plans']}?answer=0&against=5", WIDE, 860)
    _at(page, "#timeline-title")
    _take(page, "plans-dark")


def _go(page: Any, address: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)


def _at(page: Any, place: str) -> None:
    """Scroll to a place; then what moves has come to rest."""
    page.locator(place).evaluate("one => one.scrollIntoView()")
    page.wait_for_timeout(300)


def _take(what: Any, name: str) -> None:
    """Takes a picture, of a page or of a part of it, in so few colours that it is small."""
    with Image.open(BytesIO(what.screenshot())) as taken:
        few = taken.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
    few.save(PICTURES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
