"""Takes the pictures of the page that the documentation shows: python tests/shoot_pages.py."""

from __future__ import annotations

import tempfile
from pathlib import Path

from browsing import browsing, chromium, until
from patience import PATIENCE_SECONDS
from serving import served

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
ASKED = {"system": "dgx-h100:4", "axes": {"data": 8, "model": 4}, "reduce": ["data"], "k": 5}
STRIPES = {**ASKED, "axes": {"data": 32}, "k": 3}
MODEL = {"model": "llama3-8b", "batch": 64, "sequence": 8192, "explain": "pipe=2"}
PLANNED = {"system": "dgx-h100:2", **MODEL}
LOG = PICTURES.parent / "logs" / "sophia-all-gather-2x8.csv"
TORUS = {"system": "tpu-v4-pod-slice:4x4x4", "axes": {"data": 16, "model": 4}, "reduce": ["data"]}


def main() -> None:
    """The form, a ranking with its curves, a machine, timelines, and plans; some in dark."""
    PICTURES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder), wait_seconds=PATIENCE_SECONDS) as server,
        chromium() as browser,
    ):
        wait = {"Prefer": f"wait={PATIENCE_SECONDS:g}"}
        asked = [server.ask.post("/v1/top", json=one, headers=wait) for one in (ASKED, STRIPES)]
        asked.append(server.ask.post("/v1/plan", json=PLANNED, headers=wait))
        log = {"name": LOG.name, "text": LOG.read_text(encoding="utf-8")}
        measured = {"system": "dgx-a100:2", "files": [log]}
        asked.append(server.ask.post("/v1/doctor", json=measured, headers=wait))
        asked.append(server.ask.post("/v1/top", json={**TORUS, "k": 1}, headers=wait))
        plain, stripes, plans, doctor, torus = (
            one.headers["content-location"].removeprefix("/v1") for one in asked
        )
        size = {"width": 1180, "height": 860}
        with browsing(browser, server.url, viewport=size, reduced_motion="reduce") as seen:
            seen.page.goto("/")
            until(seen.page, "document.querySelector('#axes-told').textContent")
            seen.page.set_viewport_size({"width": 1180, "height": 1060})
            seen.page.screenshot(path=PICTURES / "form.png")
            seen.page.set_viewport_size(size)
            seen.page.set_viewport_size({"width": 1440, "height": 1200})
            seen.page.goto(plain)
            seen.page.locator("#sizes").scroll_into_view_if_needed()
            seen.page.wait_for_selector("#sizes svg.curve")
            seen.page.evaluate("scrollTo(0, 0)")
            seen.page.screenshot(path=PICTURES / "ranking.png")
            seen.page.goto(torus)
            seen.page.locator("#machine-title").evaluate("one => one.scrollIntoView()")
            seen.page.wait_for_timeout(300)
            seen.page.locator("#topology").screenshot(path=PICTURES / "torus.png")
            seen.page.set_viewport_size(size)
            seen.page.goto(doctor)
            seen.page.screenshot(path=PICTURES / "doctor.png")
            seen.page.goto(f"/compare?of={plain[9:]}&of={stripes[9:]}")
            seen.page.screenshot(path=PICTURES / "compare.png")
            seen.page.set_viewport_size({"width": 1180, "height": 1180})
            seen.page.goto(plans)
            seen.page.screenshot(path=PICTURES / "plans.png")
        how = {"viewport": size, "color_scheme": "dark", "reduced_motion": "reduce"}
        with browsing(browser, server.url, **how) as seen:
            seen.page.goto(stripes)
            seen.page.locator("[data-part]").scroll_into_view_if_needed()
            seen.page.wait_for_selector("svg.timeline")
            seen.page.locator("#machine-title").evaluate("one => one.scrollIntoView()")
            seen.page.wait_for_timeout(300)
            seen.page.screenshot(path=PICTURES / "machine-dark.png")
            seen.page.locator("#steps-title").evaluate("one => one.scrollIntoView()")
            seen.page.wait_for_timeout(300)
            seen.page.screenshot(path=PICTURES / "timeline-dark.png")
            seen.page.goto(f"{plans}?answer=0&against=5")
            seen.page.locator("#timeline-title").evaluate("one => one.scrollIntoView()")
            seen.page.screenshot(path=PICTURES / "plans-dark.png")


if __name__ == "__main__":
    main()
