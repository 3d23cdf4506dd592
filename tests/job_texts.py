"""A job and its entry, to be changed by tests."""

from __future__ import annotations

from grammar import Goal
from synth.collective.workload.job import Entry, JobAxis, Workload
from synth.collective.workload.quantities import parse_amount

ENTRY = Entry(
    "gradients", Goal.ALL_REDUCE, ("data",), parse_amount("14 GB"), parse_amount(1), parse_amount(0)
)


JOB = Workload("mine", "", (), (JobAxis("data", None), JobAxis("tensor", (1, 8))), (), (), (ENTRY,))
