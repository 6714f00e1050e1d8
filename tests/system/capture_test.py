#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What goes over the wire is RoCEv2, in tshark's eyes and by its checksums. Sealed packets are RoCEv2 to tshark as well, and nothing
of the file is to be seen in them."""
import os
import shutil
import signal
import socket
import subprocess

import namespace
import roce
from harness import (Directory, GODWIT, check, finish, same, seed_from_environment, skip, transfer, wait_until)

PROBE_OPCODES = (0xFE, 0xFF)
MARKER = b"the capture sees this datagram: "
SIZE = 3 * (1 << 20) + 4321
# What the file has in every packet of it.
WORDS = b"nobody on the path reads this. "
FIELDS = ["_ws.malformed", "udp.port", "infiniband.bth.opcode", "infiniband.bth.m", "infiniband.bth.p_key",
          "infiniband.bth.tver", "infiniband.bth.padcnt", "infiniband.reth.dmalen", "infiniband.immdt",
          "infiniband.invariant.crc", "udp.length", "frame.protocols"]


class Capture:
    """dumpcap on lo, for as long as the `with` lasts; everything sent in it is in the file afterwards, and so are
    datagrams of MARKER, before and behind it."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.process = subprocess.Popen(["dumpcap", "-q", "-P", "-B", "64", "-i", "lo", "-f", f"udp port {roce.PORT}",
                                         "-w", self.path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if not wait_until(lambda: os.path.exists(self.path) or self.process.poll() is not None, 10):
            skip("tshark", "dumpcap does not start")
        if self.process.poll() is not None:
            skip("tshark", self.process.stderr.read().decode().strip().splitlines()[-1])
        self.mark(b"start")
        return self

    def mark(self, word):
        """Sends a marker until the file has it: dumpcap has started, or has written everything before it."""
        marker = MARKER + word
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            check(wait_until(lambda: sock.sendto(marker, ("127.0.0.1", roce.PORT)) and self.has(marker), 30, 0.1),
                  "a datagram that does not appear in the capture")

    def has(self, marker):
        with open(self.path, "rb") as file:
            return marker in file.read()

    def __exit__(self, *_):
        self.mark(b"end")
        self.process.send_signal(signal.SIGINT)
        messages = self.process.communicate(timeout=20)[1].decode()
        check(" 0 dropped" in messages or "dropped" not in messages.lower() or "/0" in messages,
              f"the capture is incomplete: {messages}")


def is_probe(packet):
    """Sent by a process to itself, to learn which packets of the shared port come to it. Leaves no host."""
    return packet.opcode in PROBE_OPCODES and packet.source == packet.target and packet.source_port == packet.port


def dissect(path):
    command = ["tshark", "-r", path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a"]
    for field in FIELDS:
        command += ["-e", field]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    check(result.returncode == 0, f"tshark: {result.stderr}")
    return [dict(zip(FIELDS, line.split("|"))) for line in result.stdout.splitlines()]


def check_dissection(rows):
    seen = {roce.UC_WRITE_ONLY_IMM: 0, roce.UD_SEND_ONLY: 0}
    for number, row in enumerate(rows, 1):
        label = f"packet {number}: {row}"
        if not check(not row["_ws.malformed"], f"malformed {label}"):
            break
        if not check("infiniband" in row["frame.protocols"], f"not RoCEv2, {label}"):
            break
        opcode = int(row["infiniband.bth.opcode"], 0)
        if not check(opcode in seen, f"unexpected opcode, {label}"):
            break
        seen[opcode] += 1
        good = (row["infiniband.bth.tver"], int(row["infiniband.bth.p_key"], 0)) == ("0", 0xFFFF)
        good = good and row["infiniband.bth.m"] in ("1", "True") and row["infiniband.invariant.crc"] != ""
        if opcode == roce.UC_WRITE_ONLY_IMM:
            pad = int(row["infiniband.bth.padcnt"])
            # UDP, BTH, RETH, immediate and ICRC headers.
            payload = int(row["udp.length"]) - 8 - 12 - 16 - 4 - 4 - pad
            length = int(row["infiniband.reth.dmalen"])
            good = good and length == payload and pad == -length % 4 and row["infiniband.immdt"] != ""
        if not check(good, f"fields of {label}"):
            break
    return seen


def check_bytes(packets, sealed):
    """The same packets without tshark: checksums or, of sealed ones, lanes; and sequence numbers in the order of sending."""
    last = {}
    data_bytes = 0
    for number, packet in enumerate(packets, 1):
        label = f"packet {number}, opcode {packet.opcode}"
        if not check(packet.whole and packet.opcode is not None, f"{label}: cut short"):
            break
        if not check(packet.icrc_is_right() != sealed, f"{label}: ICRC is {'there' if sealed else 'wrong'}"):
            break
        if not check((WORDS in packet.payload) == (not sealed and packet.opcode == roce.UC_WRITE_ONLY_IMM
                                                   and len(packet.data) >= 2 * len(WORDS)), f"{label}: what can be read"):
            break
        if packet.opcode != roce.UC_WRITE_ONLY_IMM:
            continue
        data_bytes += len(packet.data)
        key = (packet.source, packet.qpn, packet.payload[8] & 7 if sealed else 0)
        # The PSN of sealed packets is the low part of a counter.
        if key not in last and sealed and not check(packet.psn == 0, f"{label}: first PSN is {packet.psn}"):
            break
        if key in last and not check(packet.psn == (last[key] + 1) % (1 << 24),
                                     f"{label}: PSN {packet.psn} after {last[key]}"):
            break
        last[key] = packet.psn
    return data_bytes


def write_words(path, rng):
    """A file of which every packet has WORDS in it."""
    with open(path, "wb") as out:
        out.write((rng.randbytes(8) + WORDS * (SIZE // len(WORDS) + 1))[:SIZE])


def seal_options(directory):
    secret = os.path.join(directory, "secret")
    subprocess.run([GODWIT, "secret", secret], check=True, capture_output=True)
    return ("--secret-file", secret, "--seal")


def has_openssl(directory):
    done = subprocess.run([GODWIT, "recv", os.path.join(directory, "none"), *seal_options(directory), "--bind", "192.0.2.1"],
                          capture_output=True, text=True, check=False, timeout=10)
    os.unlink(os.path.join(directory, "secret"))
    return "without OpenSSL" not in done.stderr


def capture(directory, host, rng, sealed):
    source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
    path = os.path.join(directory, "transfer.pcap")
    write_words(source, rng)
    options = seal_options(directory) if sealed else ()
    with Capture(path):
        sender, receiver = transfer(source, target, host, options, options)
    check(sender.status == 0 and receiver.status == 0 and same(source, target), f"{sender} {receiver}")
    everything = list(zip(dissect(path), roce.read_pcap(path), strict=True))
    everything = [(row, packet) for row, packet in everything if not packet.payload.startswith(MARKER)]
    rows = [row for row, packet in everything if not is_probe(packet)]
    packets = [packet for _, packet in everything if not is_probe(packet)]
    probes = len(everything) - len(packets)
    check(len(rows) == len(packets) and len(rows) > 100, f"{len(rows)} rows, {len(packets)} packets")
    seen = check_dissection(rows)
    data_bytes = check_bytes(packets, sealed)
    check(all(seen.values()), f"both kinds of packet expected: {seen}")
    check(data_bytes >= SIZE, f"{data_bytes} bytes of data for a file of {SIZE}")
    print(f"{host}{', sealed' if sealed else ''}: {seen[roce.UC_WRITE_ONLY_IMM]} data packets, {seen[roce.UD_SEND_ONLY]} control packets, "
          f"{probes} probes")
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))


def main():
    for tool in ("tshark", "dumpcap"):
        if not shutil.which(tool):
            skip("tshark", f"{tool} is not installed")
    namespace.enter(lambda reason: skip("tshark", f"no network namespace to capture in: {reason}"))
    namespace.segment_before_capture()
    rng = seed_from_environment()
    with Directory() as directory:
        capture(directory, "127.0.0.1", rng, False)
        capture(directory, "::1", rng, False)
        if has_openssl(directory):
            capture(directory, "127.0.0.1", rng, True)
            capture(directory, "::1", rng, True)
    finish()


main()
