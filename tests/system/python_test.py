#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package: installed without network, and ranks that use it on this host."""
import os
import re
import shutil
import subprocess
import sys
import time

from harness import Directory, check, finish, seed_from_environment
from pythons import LIBRARY, PACKAGE, Ranks, environment, interpreter_with

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = os.path.join(HERE, "python_ranks.py")
LIVES = os.path.join(HERE, "python_lives_ranks.py")
ROOT = os.path.join(HERE, "../..")


def python(code, **more):
    return subprocess.run([sys.executable, "-c", code], env=environment(**more), capture_output=True, text=True, timeout=60,
                          check=False)


def test_missing_library():
    """What is said when the library is not there, or is another."""
    for library, words in (("/nonexistent/libgodwit.so.0", "GODWIT_LIBRARY"), ("libc.so.6", "older than this Python package")):
        told = python("import godwit", GODWIT_LIBRARY=library)
        last = told.stderr.splitlines()[-1:]
        check(told.returncode == 1 and last and last[0].startswith("ImportError: godwit: ") and words in last[0] and
              library in last[0], f"{library}: {told.stderr[-800:]}")


def test_install():
    """pip installs it with no index to ask; the library is found beside the package; types are marked."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        print("no pip here: it is not tried")
        return
    with Directory() as directory:
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", directory, "--no-cache-dir",
                   "--disable-pip-version-check", "--target", target, source]
        told = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
        if not check(told.returncode == 0, f"pip: {told.stdout[-800:]} {told.stderr[-800:]}"):
            return
        check(os.path.exists(os.path.join(target, "godwit/py.typed")), f"files: {os.listdir(target)}")
        shutil.copy(os.path.realpath(LIBRARY), os.path.join(target, "godwit/libgodwit.so.0"))
        told = python("import godwit, importlib.metadata as m; print(godwit.__file__, m.version('godwit'), godwit.library_version())",
                      PYTHONPATH=target, GODWIT_LIBRARY="")
        with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as file:
            release = re.search(r"version: '([^']+)'", file.read()).group(1)
        check(told.stdout.split() == [os.path.join(target, "godwit/__init__.py"), release, release],
              f"installed: {told.stdout} {told.stderr[-800:]}")


def expect(word, count, *arguments, interpreter=sys.executable, silent=(), timeout=90, script=RANKS):
    """Runs ranks that all end well and print `word`, but for those in `silent`."""
    ranks = Ranks(count, interpreter, script, *arguments).wait(timeout)
    check(ranks.good() and all(text.startswith(word) or rank in silent for rank, text in enumerate(ranks.stdout)),
          f"{arguments} on {count} ranks: {ranks}")
    return ranks


def test_operations(rng):
    for service in (1, 0):
        for count in (1, 2, rng.randrange(3, 6)):
            expect("operations", count, "operations", rng.randrange(1 << 30), service)
    for count in (1, 2, 3):
        expect("bounded", count, "bounded")
    interpreter = interpreter_with("numpy")
    if interpreter:
        expect("arrays", 3, "numpy_arrays", interpreter=interpreter)
    else:
        print("no Python here has NumPy: arrays are not tried")


def test_manners():
    expect("mistakes", 2, "mistakes")
    told = expect("progress", 2, "progress")
    check(all("a callback of allreduce failed" in text and "ZeroDivisionError" in text for text in told.stderr), f"{told}")
    expect("threads", 1, "threads")
    for service in (1, 0):
        with Directory() as directory:
            expect("patience", 2, "patience", service, os.path.join(directory, "go on"), silent=(1,), script=LIVES)
        expect("many", 2, "many", service, script=LIVES)
        expect("forgotten", 2, "forget", service, script=LIVES)
        expect("child\nfork", 2, "fork", service, script=LIVES)
        expect("interrupted_split", 2, "interrupted_split", service, script=LIVES)
    expect("refused_close", 2, "refused_close", script=LIVES)
    with Directory() as directory:
        expect("split_waits", 2, "split_waits", os.path.join(directory, "go on"), silent=(1,), script=LIVES)
    # A close that waits in vain takes 10 s.
    ranks = expect("several", 3, "several", script=LIVES)
    took = time.time() - min(float(text.split()[1]) for text in ranks.stdout if text)
    check(took < 8, f"several communicators took {took:.1f} s to close")
    expect("split_off", 2, "split_off", script=LIVES)


def test_death():
    for how in ("kill", "abort", "exception", "block"):
        ranks = Ranks(3, sys.executable, LIVES, "die", how).wait()
        expected = {"kill": -9, "abort": 0, "exception": 1, "block": 1}[how]
        check(ranks.statuses == [0, 0, expected] and all(text.startswith("told:") for text in ranks.stdout[:2]), f"{how}: {ranks}")


def main():
    rng = seed_from_environment()
    test_missing_library()
    test_install()
    test_operations(rng)
    test_manners()
    test_death()
    finish()


main()
