# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the Python package share: an interpreter that has a module, and processes that are ranks."""
import os
import subprocess
import sys
import time

from harness import default_hangup, free_port

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bindings/python")
LIBRARY = os.environ.get("GODWIT_LIBRARY") or os.path.join(os.path.dirname(__file__), "../../build/src/libgodwit.so.0")


def environment(**more):
    return {**os.environ, "PYTHONPATH": PACKAGE, "GODWIT_LIBRARY": os.path.abspath(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1", **more}


def interpreter_with(module):
    """A Python that can import the module: this one, or the system's. None if neither can."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", f"import {module}"], capture_output=True,
                                                     check=False).returncode == 0:
            return python
    return None


class Ranks:
    """`count` processes on this host with the environment that torchrun sets, each running `python SCRIPT ARGUMENT...`."""

    def __init__(self, count, python, script, *arguments):
        port = free_port()
        self.processes = [
            subprocess.Popen([python, script, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=default_hangup,
                             env=environment(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank),
                                             MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
            for rank in range(count)]
        self.stdout = self.stderr = []
        self.late = False

    def wait(self, timeout=90):
        deadline = time.monotonic() + timeout
        told = []
        for process in self.processes:
            try:
                told.append(process.communicate(timeout=max(1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.late = True
                process.kill()
                told.append(process.communicate())
        self.stdout, self.stderr = [out for out, _ in told], [err for _, err in told]
        return self

    @property
    def statuses(self):
        return [process.returncode for process in self.processes]

    def good(self):
        return self.statuses == [0] * len(self.processes)

    def __str__(self):
        late = " (killed: did not end in time)" if self.late else ""
        return f"statuses {self.statuses}{late}, stdout {self.stdout}, stderr {[text[-1500:] for text in self.stderr]}"
