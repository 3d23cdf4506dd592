"""A script on many ranks, each a process of its own that need not import torch again.

``forked.py WORLD SCRIPT WORDS...`` sets what torchrun would: RANK, LOCAL_RANK, WORLD_SIZE and where
to meet, at a port that is open from the first: one that is only known to be free others may take.
The first rank that fails ends all; what is printed is the first one's. Importing torch takes
seconds of a processor, which on 16 ranks is most of a test: so it is imported here, and the ranks
are forked.
"""

import gc
import os
import runpy
import signal
import socket
import sys

import torch.distributed as dist
import torch.distributed.fsdp
import torch.nn.parallel  # noqa: F401


def rank(number: int, script: str) -> int:
    """Its exit code, as that of a Python that has run the script."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(number)
    if number:  # lines of several would run into each other
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = int(end.code not in (None, 0))
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main(world: int, script: str) -> int:
    meeting = socket.create_server(("127.0.0.1", 0))
    port = meeting.getsockname()[1]
    os.environ |= {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    sys.path[0] = os.path.dirname(script)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    gc.freeze()  # what is shared is not looked through again in every rank
    ranks = []
    for number in range(world):
        if not (child := os.fork()):
            os._exit(rank(number, script))
        ranks.append(child)
    _store = dist.TCPStore(
        "127.0.0.1", port, None, True, wait_for_workers=False, master_listen_fd=meeting.detach()
    )  # after the forks, as it has threads; whoever came before waits at the port
    while ranks:
        child, status = os.wait()
        ranks.remove(child)
        if status:
            for other in ranks:
                os.kill(other, signal.SIGKILL)
            return 1
    return 0


if __name__ == "__main__":
    del sys.argv[0]
    sys.exit(main(int(sys.argv.pop(0)), sys.argv[0]))
