#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts commands in lab hosts for mpirun, in place of ssh: the hosts share the file system, so they meet at Unix sockets.

Usage: agent.py serve DIRECTORY NAME	on each host: runs what callers ask for, until the directory is gone
       agent.py NAME COMMAND...		as mpirun's plm_rsh_agent, with the directory in LAB_AGENT: runs it on host NAME
"""
import json
import os
import socket
import subprocess
import sys


def serve(directory, name):
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.join(directory, name))
    server.listen()
    server.settimeout(0.2)
    running = []
    while os.path.isdir(directory):
        for caller, process in [one for one in running if one[1].poll() is not None]:
            caller.close()
            running.remove((caller, process))
        try:
            caller, _ = server.accept()
        except TimeoutError:
            continue
        asked = json.loads(caller.makefile().readline())
        running.append((caller, subprocess.Popen(["sh", "-c", asked["command"]], env=asked["environment"], cwd=asked["directory"],
                                                 stdin=subprocess.DEVNULL)))


def call(name, command):
    caller = socket.socket(socket.AF_UNIX)
    caller.connect(os.path.join(os.environ["LAB_AGENT"], name))
    asked = {"command": " ".join(command), "environment": dict(os.environ), "directory": os.getcwd()}
    caller.sendall((json.dumps(asked) + "\n").encode())
    caller.recv(1)  # until the command ends


if sys.argv[1] == "serve":
    serve(*sys.argv[2:4])
else:
    call(sys.argv[1], sys.argv[2:])
