"""Workers: pieces of questions computed in other processes, here or on a cluster.

A piece is sent as text, and its result or problem is returned as text. ``ProcessPoolExecutor`` is
not used because it hangs if a process is killed, as for its memory, while it writes a long result:
the executor waits for the rest without end.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.service.workers.problems import outcome_text, result_of
>>> from synth.ask.partition import Piece
>>> piece = Piece(verb="count", question={"digits": 1, "max_steps": 2})
>>> result_of(outcome_text(piece.text, Watcher()))["body"]["by_length"]
[1, 2]
"""

from synth.service.workers.pool import Progress as Progress
from synth.service.workers.pool import Ticket as Ticket
from synth.service.workers.pool import Workers as Workers
from synth.service.workers.problems import (
    InternalError as InternalError,
)
from synth.service.workers.problems import (
    KilledError as KilledError,
)
from synth.service.workers.problems import (
    NoWorkersError as NoWorkersError,
)
from synth.service.workers.problems import (
    OutOfMemoryError as OutOfMemoryError,
)
from synth.service.workers.problems import (
    OverTimeError as OverTimeError,
)
from synth.service.workers.problems import (
    WorkerLostError as WorkerLostError,
)
from synth.service.workers.problems import (
    WorkError as WorkError,
)
from synth.service.workers.processes import ProcessWorkers as ProcessWorkers
from synth.service.workers.question_run import QuestionRun as QuestionRun
