"""``fork_client.py PLACE WORDS...``: as ``python WORDS...``, by a server that is ready to fork."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"3"], [0, 1, 2])
    asked = {"words": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
    server.sendall(json.dumps(asked).encode() + b"\n")
    code = server.recv(1)
sys.exit(code[0] if code else "the script ended without an exit code")
