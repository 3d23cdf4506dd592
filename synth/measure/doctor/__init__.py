r"""Compares measured runs with the prediction, and finds the level that limits them.

Consider a level whose links need S seconds at the described bandwidth. A run of T seconds shows
that the level delivers at least S/T of that bandwidth, because it was busy for at most T. If a run
falls short, some level delivers exactly that share, or another algorithm ran than predicted. Any
other run in which a level delivered more clears that level. If a single level remains, it is named.
Runs of few levels inform the others (``blame``). No conclusion goes beyond these numbers.

Prices that are typical of such links, or calibrated, have an interval, and a time inside it is as
expected. A level then falls short of its medium's performance elsewhere, not of its data sheet.

With an earlier log of the same test the comparison is row by row (``baseline``). It finds smaller
faults, because two runs on one machine differ less than machines do.

>>> from hierarchies import load
>>> from synth.measure.doctor import diagnose
>>> from synth.measure.logs.matching import match_log
>>> from synth.measure.logs.reading import parse_logs
>>> rows = [f"{size},{size / 60e9}" for size in (1 << 28, 1 << 29, 1 << 30)]
>>> text = "\n".join(["# collective: all_gather", "# members: 1,8", "bytes,seconds", *rows])
>>> [log], system = parse_logs(text, "node.csv"), load("dgx-a100:2")
>>> for finding in diagnose(system, [match_log(system, log)]).findings:
...     print(finding.text)
node.csv: all-gather of 1 x 8: 18% of the predicted bandwidth (by ring)
level 'gpu' falls short: 18% of what is described
no size mostly waits for messages: it says nothing of latency
"""

from synth.measure.doctor.baseline import BASELINE as BASELINE
from synth.measure.doctor.baseline import PastComparison as PastComparison
from synth.measure.doctor.baseline import explain_missing as explain_missing
from synth.measure.doctor.baseline import match_baselines as match_baselines
from synth.measure.doctor.blame import Finding as Finding
from synth.measure.doctor.blame import FindingKind as FindingKind
from synth.measure.doctor.carried import CarriedShare as CarriedShare
from synth.measure.doctor.carried import carried_shares as carried_shares
from synth.measure.doctor.changes import Change as Change
from synth.measure.doctor.findings import Diagnosis as Diagnosis
from synth.measure.doctor.findings import diagnose as diagnose
from synth.measure.doctor.findings import is_collective as is_collective
from synth.measure.doctor.runs import MeasuredRun as MeasuredRun
from synth.measure.doctor.runs import SizeReading as SizeReading
