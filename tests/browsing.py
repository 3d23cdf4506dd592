"""A real browser for tests: Debian's Chromium, which sees this machine and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patience import PATIENCE_SECONDS

CHROMIUM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@dataclass
class Browsing:
    """A page, what it complained of, and what it asked for elsewhere."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Nothing was wrong, and nothing left this machine."""
        assert self.complaints == []
        assert self.strangers == []


def until(page: Any, holds: str) -> None:
    """Wait until a script holds. The page's policy forbids the browser to do so by itself."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not page.evaluate(holds):
        assert time.monotonic() < end, f"{holds} does not come true"
        page.wait_for_timeout(50)


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser itself."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def browsing(browser: Any, base: str, **how: Any) -> Iterator[Browsing]:
    """A fresh page of it; requests to any other address than ``base`` are refused and noted."""
    context = browser.new_context(base_url=base, **how)
    context.set_default_timeout(1000 * PATIENCE_SECONDS)
    found = Browsing(context.new_page())

    def route(handler: Any) -> None:
        if handler.request.url.startswith(base):
            handler.continue_()
        else:
            found.strangers.append(handler.request.url)
            handler.abort()

    context.route("**/*", route)
    found.page.on("console", lambda said: _heard(found, said))
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    try:
        yield found
    finally:
        context.close()


def _heard(found: Browsing, said: Any) -> None:
    if said.type in ("error", "warning"):
        found.complaints.append(said.text)
