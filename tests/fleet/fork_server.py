"""A Python that has imported what takes seconds to import, and forks a process for each script.

``fork_server.py PLACE MODULES...`` listens on a socket at that place, until its input ends;
``fork_client.py`` asks it, and looks from outside like a Python that runs the script. Not fit for
what is about processes: a script is no child of who asks for it, though it ends with the client.
"""

import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
from importlib import import_module
from types import ModuleType


def main(place: str, modules: list[str]) -> None:
    for module in modules:
        import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            connection, _ = door.accept()
            if not os.fork():
                answer(connection)
                os._exit(0)
            connection.close()


def answer(connection: socket.socket) -> None:
    """Run one script with the words, the environment and the streams of the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    streams = socket.recv_fds(connection, 1, 3)[1]
    given = json.loads(connection.makefile().readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["environment"])
    # Where the client ends first, SIGIO ends the script and what it has started.
    fcntl.fcntl(connection, fcntl.F_SETOWN, -os.getpid())
    flags = fcntl.fcntl(connection, fcntl.F_GETFL)
    fcntl.fcntl(connection, fcntl.F_SETFL, flags | os.O_ASYNC)
    code = ended(given["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    fcntl.fcntl(connection, fcntl.F_SETFL, flags)
    connection.sendall(bytes([code]))


def ended(words: list[str]) -> int:
    """The exit code of ``python WORDS...``."""
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(words[1], "<string>", "exec"), vars(sys.modules["__main__"]))
        else:
            sys.argv = words
            sys.path[0] = os.path.dirname(words[0])
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
