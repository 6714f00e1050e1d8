# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that share one machine and one GPU: processes forked from the runner, each in the network of a lab host of its own if there is
a path between them, else all in that of one host, on loopback. So nothing of the machine's network is changed, but for a list of
congestion controls that hosts may choose from.

The runner imports torch once and forks a process for each rank, so that a run does not pay for the import. A rank enters the
network namespace of its lab host and nothing else of it; what NCCL takes for the identity of the host is set by NCCL_HOSTID. The
runner itself never touches CUDA, which does not survive a fork.
"""
import ctypes
import json
import mmap
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
MPS = "nvidia-cuda-mps-control"
STALL_S = 45  # without progress of any rank, after which a run has hung; also the time for its start
GRACE_S = 5  # for the other ranks after one has failed
TCP_BUFFERS = "4096 1048576 67108864"
CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"
ALLOWED = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
# The same for everybody, in every host.
TUNING = {"/proc/sys/net/ipv4/tcp_rmem": TCP_BUFFERS, "/proc/sys/net/ipv4/tcp_wmem": TCP_BUFFERS,
          "/proc/sys/net/ipv4/tcp_slow_start_after_idle": "0", "/proc/sys/net/ipv4/tcp_no_metrics_save": "1"}
OVERRUN_MOST = 1e-4  # share of packets dropped at the hosts' interfaces above which a run is void

libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    pass


def read(path):
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def set_sysctl(path, value):
    """True if it has the value then."""
    try:
        if read(path).split() != value.split():
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
        return read(path).split() == value.split()
    except OSError:
        return False


def enter_network(descriptor):
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Lab:
    """`godwit lab` whose hosts do nothing; their networks are entered from outside."""

    def __init__(self, build, hosts, settings):
        self.token = secrets.token_hex(8)
        command = [os.path.join(build, "godwit"), "lab", "--json", "--hosts", str(hosts), *settings, "--", "sleep", "100000"]
        self.process = subprocess.Popen(command, env={**os.environ, "GPU_LAB": self.token}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.hosts = {}
        deadline = time.monotonic() + 10
        while len(self.hosts) < hosts:
            self.find()
            if self.process.poll() is not None:
                raise Failure(f"the lab ended: {self.process.stderr.read()[-300:]}")
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                raise Failure("the lab's hosts did not start")
            time.sleep(0.02)
        self.networks = [os.open(f"/proc/{self.hosts[rank]}/ns/net", os.O_RDONLY) for rank in range(hosts)]

    def find(self):
        """Processes of the hosts, by rank."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if read(f"/proc/{pid}/comm").strip() != "sleep":
                    continue
                environment = dict(line.partition("=")[::2] for line in read(f"/proc/{pid}/environ").split("\0"))
            except OSError:
                continue
            if environment.get("GPU_LAB") == self.token:
                self.hosts[int(environment["RANK"])] = int(pid)

    def close(self):
        """The lab's report."""
        for pid in self.hosts.values():
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        try:
            text, said = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            text, said = self.process.communicate()
        for network in self.networks:
            os.close(network)
        try:
            return json.loads(text)
        except ValueError as error:
            raise Failure(f"the lab left no report: {said[-300:]}") from error


def lateness(report):
    """What of the lab's report says whether a run counts."""
    forwarded = sum(link["forwarded"] for link in report["links"])
    overrun = sum(link["dropped"]["overrun"] for link in report["links"])
    lost = sum(link["dropped"]["loss"] for link in report["links"])
    void = "the lab was late" if report["was_late"] else "interfaces overran" if overrun > OVERRUN_MOST * max(1, forwarded) else None
    return {"late_p99_us": report["late"]["p99_us"], "forwarded": forwarded, "lost": lost, "overrun": overrun, "void": void}


class Mps:
    """The daemon that lets kernels of several processes run at the same time. Does nothing on a machine without it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="godwit-mps-")
        self.there = shutil.which(MPS) is not None
        self.running = False
        self.starts = 0

    def restart(self):
        self.stop()
        if not self.there:
            return
        # A folder for each daemon: one that is still ending does not disturb the next.
        self.starts += 1
        for name in ("PIPE", "LOG"):
            folder = os.path.join(self.folder, f"{name.lower()}{self.starts}")
            os.makedirs(folder)
            os.environ[f"CUDA_MPS_{name}_DIRECTORY"] = folder
        subprocess.run([MPS, "-d"], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running = True

    def stop(self):
        if self.running:
            try:
                subprocess.run([MPS], input="quit\n", text=True, timeout=20, check=False, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                pass
        self.running = False

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def allowed(control):
    """Whether a host of a lab may choose this congestion control."""
    try:
        return control in read(ALLOWED).split()
    except OSError:
        return False


class Tuning:
    """Lets hosts of a lab choose their congestion control, and restores what the machine had; all else is set in the hosts."""

    def __init__(self, *controls):
        self.old = {}
        for path in (ALLOWED, CONGESTION):
            try:
                self.old[path] = read(path).strip()
            except OSError:
                pass
        set_sysctl(ALLOWED, " ".join(dict.fromkeys([*self.old.get(ALLOWED, "").split(), *controls])))

    def close(self):
        for path, value in self.old.items():
            set_sysctl(path, value)


class Together:
    """Memory that the ranks of a run share: a barrier that costs microseconds, a value that rank 0 announces at it, a number of
    steps after which to end, and beats, by which the runner sees that they get on. Words: a turn and a number of beats for each
    rank, then two announcements and the steps."""

    def __init__(self, size):
        self.size = size
        self.words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self.turn = 0
        self.announced, self.last = 2 * size, 2 * size + 2

    def beat(self, rank):
        self.words[self.size + rank] += 1

    def beats(self):
        return sum(self.words[self.size:2 * self.size])

    def most_beats(self):
        return max(self.words[self.size:2 * self.size])

    def set_steps(self, steps):
        self.words[self.last] = steps

    def steps(self):
        return self.words[self.last]

    def barrier(self, rank, announce=None):
        """Returns what rank 0 announced."""
        self.turn += 1
        if rank == 0:
            self.words[self.announced + self.turn % 2] = -1 if announce is None else announce
        self.words[rank] = self.turn
        self.beat(rank)
        spins = 0
        while any(self.words[other] < self.turn for other in range(self.size)):
            spins += 1
            if spins > 200:
                time.sleep(0.00002)
        return self.words[self.announced + self.turn % 2]


class Rank:
    """One process: what it does, and what it left."""

    def __init__(self, number, job, setup, log):
        self.number, self.log = number, log
        self.result, self.code = None, None
        self.pipe, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            self.live(job, setup, write_end)
        os.close(write_end)
        os.set_blocking(self.pipe, False)
        self.text = b""

    def live(self, job, setup, write_end):
        code = 1
        try:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            for stream in (1, 2):
                os.dup2(log, stream)
            setup(self.number)
            text = json.dumps(job(self.number)).encode()
            os.set_blocking(write_end, True)
            while text:
                text = text[os.write(write_end, text):]
            code = 0
        except BaseException:  # whatever it is belongs in the log, and the process ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def look(self):
        """Takes what has been written, and whether the process has ended."""
        try:
            while part := os.read(self.pipe, 1 << 20):
                self.text += part
        except BlockingIOError:
            pass
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)

    def finish(self):
        self.look()
        os.close(self.pipe)
        if self.code == 0:
            self.result = json.loads(self.text)

    def tail(self, characters=600):
        try:
            return read(self.log)[-characters:]
        except OSError:
            return ""


class World:
    """`size` ranks, in hosts of a lab if `settings` (options of `godwit lab`) are given, else on loopback. A context manager; `report` is
    the lab's afterwards. Ranks that run outside of it are in the network of the machine."""

    def __init__(self, build, size, settings=None, congestion=None, scratch="/tmp"):
        self.build, self.size, self.settings, self.congestion, self.scratch = build, size, settings, congestion, scratch
        self.lab, self.report = None, None
        self.loopback = settings is None
        self.interface = "lo" if settings is None else "lab0"
        self.address = "127.0.0.1" if settings is None else "10.200.0.1"

    def __enter__(self):
        # Where hosts may not choose it they inherit the machine's.
        if self.congestion and not allowed(self.congestion):
            set_sysctl(CONGESTION, self.congestion)
        self.lab = Lab(self.build, 1 if self.loopback else self.size, self.settings or [])
        return self

    def __exit__(self, *_):
        report = lateness(self.lab.close())
        if not self.loopback:
            self.report = report

    def setup(self, environment):
        port = str(free_port())

        def prepare(rank):
            if self.lab:
                enter_network(self.lab.networks[0 if self.loopback else rank])
                # What cannot be set here is named in the result.
                untuned = [path for path, value in TUNING.items() if not set_sysctl(path, value)]
                os.environ["GPU_UNTUNED"] = ",".join(os.path.basename(path) for path in untuned)
                if self.congestion and not set_sysctl(CONGESTION, self.congestion):
                    raise Failure(f"a lab host may not use TCP with {self.congestion}")
            os.environ.update({
                "RANK": str(rank), "WORLD_SIZE": str(self.size), "LOCAL_RANK": "0", "MASTER_ADDR": self.address,
                "MASTER_PORT": port, "NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": self.interface,
                "GLOO_SOCKET_IFNAME": self.interface, "GODWIT_IFNAME": self.interface, **environment})
        return prepare

    def run(self, job, environment, timeout, together=None):
        """Each rank's result of job(rank). Fails with the end of the log of the rank that failed first. With `together` a run whose
        ranks do not get on is ended early."""
        folder, setup = tempfile.mkdtemp(prefix="godwit-ranks-", dir=self.scratch), self.setup(environment)
        ranks = [Rank(number, job, setup, os.path.join(folder, f"{number}.log")) for number in range(self.size)]
        deadline, first = time.monotonic() + timeout, None
        beats, beat_at = 0, time.monotonic()
        while any(rank.code is None for rank in ranks):
            if together and together.beats() != beats:
                beats, beat_at = together.beats(), time.monotonic()
            if together and time.monotonic() > beat_at + STALL_S:
                deadline = 0
            for rank in ranks:
                rank.look()
                if rank.code not in (None, 0) and first is None:
                    first = rank
                    deadline = min(deadline, time.monotonic() + GRACE_S)
            if time.monotonic() > deadline:
                for rank in ranks:
                    if rank.code is None:
                        os.kill(rank.pid, signal.SIGKILL)
                        rank.code = os.waitstatus_to_exitcode(os.waitpid(rank.pid, 0)[1])
                first = first or ranks[0]
            time.sleep(0.01)
        for rank in ranks:
            rank.finish()
        if first is not None:
            said = first.tail()
            raise Failure(f"rank {first.number} ended with {first.code}: {said}")
        shutil.rmtree(folder, ignore_errors=True)
        return [rank.result for rank in ranks]
