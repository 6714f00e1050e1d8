# SPDX-License-Identifier: BSD-3-Clause
"""What the commands of bench/gpu share: options, points that a later call goes on from, and results as bench/run keeps them."""
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def names(text):
    return [name for name in text.split(",") if name]


def add_options(parser):
    parser.add_argument("--out", default="gpu-results", type=os.path.abspath, help="where points and results go (gpu-results)")
    parser.add_argument("--budget", type=float, metavar="S", help="seconds after which no more runs begin (no limit)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), type=os.path.abspath, help="the build directory (build)")


def ready(options, needed):
    """Configures and builds what is missing, if that can be done here."""
    def missing():
        return [name for name in needed if not os.path.exists(os.path.join(options.build, name))]

    if os.geteuid() != 0:
        sys.exit("needs root, to enter the networks of a lab")
    if missing() and shutil.which("meson") and shutil.which("ninja"):
        if not os.path.exists(os.path.join(options.build, "build.ninja")):
            subprocess.run(["meson", "setup", options.build, ROOT], check=False, stdout=subprocess.DEVNULL)
        known = subprocess.run(["ninja", "-C", options.build, "-t", "targets", "all"], capture_output=True, text=True, check=False).stdout
        known = [line.partition(":")[0] for line in known.splitlines()]
        # A library's file has its version in its name; the name without it is a link that comes with it.
        targets = [next((target for target in known if re.fullmatch(re.escape(name) + r"(\.\d+)*", target)), name) for name in missing()]
        subprocess.run(["ninja", "-C", options.build, *targets], check=False, stdout=subprocess.DEVNULL)
    if missing():
        sys.exit(f"{options.build} lacks {', '.join(missing())}: build first")


def read_points(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def add_point(path, point):
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(point) + "\n")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def command(program):
    """The command line, without places on this machine."""
    places = ("--out", "--build")
    words = [word for at, word in enumerate(sys.argv) if at and word not in places and sys.argv[at - 1] not in places]
    return shlex.join([program, *words])


def write(options, program, name, result, points=()):
    """The result, with the commands that measured the points; points of before there was more than one have none."""
    path = os.path.join(options.build, "bench", "compiler")
    compiler = "unknown compiler"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            compiler = file.read().strip()
    commands = list(dict.fromkeys(one["command"] for one in points if one.get("command"))) or [command(program)]
    whole = {"command": " && ".join(commands), "processor": processor(), "compiler": compiler, "result": result}
    with open(os.path.join(options.out, name), "w", encoding="utf-8") as file:
        json.dump(whole, file, indent=1)
        file.write("\n")


def merge(options, name, join):
    """Puts the result of options.out into the kept file options.merge: join(kept, fresh) says how. Both must be of one machine."""
    with open(os.path.join(options.out, name), encoding="utf-8") as file:
        fresh = json.load(file)
    kept = fresh
    if os.path.exists(options.merge):
        with open(options.merge, encoding="utf-8") as file:
            kept = json.load(file)
        for what, of in (("processor", lambda one: one["processor"]), ("GPU", lambda one: one["result"].get("gpu")),
                         ("number of processors", lambda one: one["result"]["processors"])):
            if of(kept) != of(fresh):
                sys.exit(f"{options.merge} was measured with another {what}: {of(kept)}, not {of(fresh)}")
        commands = dict.fromkeys([*kept["command"].split(" && "), *fresh["command"].split(" && ")])
        kept = {**fresh, "command": " && ".join(commands), "result": join(kept["result"], fresh["result"])}
    with open(options.merge, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
