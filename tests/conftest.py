"""Options shared by all tests."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile(
    "hurry", parent=settings.get_profile("house"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden texts and README transcripts"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
