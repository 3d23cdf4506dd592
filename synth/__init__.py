"""HOW: synthesis, proof, prices and schedules of reduction programs.

The Python face is as small as the command line's main verb::

    import synth

    report = synth.top("dgx-h100:4", axes={"data": 8, "model": 4}, reduce=["data"])
    print(report.answers[0].candidate.program)
"""

from synth.plan import Answer as Answer
from synth.plan import Report as Report
from synth.plan import Request as Request
from synth.plan import answers as answers
from synth.plan import top as top
