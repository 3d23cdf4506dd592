"""The section about estimators says what the samples that are kept give."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from results import pages, record
from results.learned import __main__ as learned
from synth.train.learned.judging import Fit, error_of, held_out
from synth.train.learned.rungs import fit_rates
from synth.train.learned.samples import read_samples


def test_the_section_about_estimators_is_made_from_its_data() -> None:
    data = record.read(learned.DATA)
    assert learned.page(data) == pages.README.read_text(encoding="utf-8")


@pytest.mark.parametrize("compiler", sorted(record.read(learned.DATA)["compilers"]))
def test_samples_that_are_kept_give_the_errors_that_are_told(compiler: str) -> None:
    """One model by the rung that was taken; all of it is ``--check``."""
    pytest.importorskip("sklearn", reason="needs scikit-learn, of the extra 'learn'")
    from synth.train.learned.forest import fit_trees

    told = record.read(learned.DATA)["compilers"][compiler]
    kept = read_samples((learned.HERE / f"{compiler}.json").read_text(encoding="utf-8"))
    assert len(kept.samples) == told["samples"]
    fit: Fit = {"rates": fit_rates, "trees": fit_trees}[told["rung"]]
    found = error_of(held_out(kept.samples, fit, ["mlp"])["mlp"])
    assert asdict(found) == pytest.approx(told["judged"]["groups"]["mlp"], rel=0.05)
