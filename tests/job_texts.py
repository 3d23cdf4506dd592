"""A job and its entry, to be changed by tests."""

from __future__ import annotations

from grammar import Goal
from synth.collective.workload.job import Entry, Job, JobAxis
from synth.collective.workload.quantities import amount_of

ENTRY = Entry(
    "gradients", Goal.ALL_REDUCE, ("data",), amount_of("14 GB"), amount_of(1), amount_of(0)
)


JOB = Job("mine", "", (), (JobAxis("data", None), JobAxis("tensor", (1, 8))), (), (), (ENTRY,))
