#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Forged packets rain on both ends of a running transfer: the file arrives unchanged, and each kind is counted.

Most forgeries are a live packet with one thing changed, so that nothing but the check in question can stop them. The
live ones are overheard, which takes a network namespace.
"""
import os
import select
import socket
import struct
import threading
import time

import namespace
import roce
from harness import (Directory, check, finish, free_port, same, seed_from_environment, skip, start_recv, start_send,
                     write_sparse)

SIZE = 256 << 20
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2  # <linux/in.h>; the socket module has no names for them
QUEUE_MAX = 10000
HOST, STRANGER = "127.0.0.1", "127.0.0.2"
# Which counters may have stopped a kind of forgery. An end that is closing has forgotten queue pair and windows.
KINDS = {
    "garbage": ["malformed", "version", "icrc", "opcode", "qpn"],
    "truncated": ["malformed", "icrc"],
    "icrc": ["icrc"],
    "version": ["version"],
    "opcode": ["opcode"],
    "multipacket": ["multipacket"],
    "qpn": ["qpn"],
    "stranger": ["stranger"],
    "rkey": ["rkey", "slot"],
    "slot": ["slot", "rkey"],
    "offset": ["offset", "rkey", "slot"],
    "length": ["length", "malformed", "rkey", "slot"],
    "qkey": ["qkey"],
}


def flip(value, bits, rng):
    """Another value of so many bits."""
    return value ^ rng.randrange(1, 1 << bits)


class Forger:
    def __init__(self, rng):
        self.rng = rng
        self.sockets = {address: self.open_socket(address) for address in (HOST, STRANGER)}
        self.sent = dict.fromkeys(KINDS, 0)

    @staticmethod
    def open_socket(address):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Do not fragment: the identification is then 0, as the ICRC assumes.
        s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        s.bind((address, 0))
        return s

    def send(self, kind, payload, source=HOST, sealed=True):
        s = self.sockets[source]
        if sealed:
            payload = roce.finish_ipv4(payload, source, s.getsockname()[1], HOST, roce.PORT)
        try:
            s.sendto(payload, (HOST, roce.PORT))
            self.sent[kind] += 1
        except OSError:
            pass

    def forge_data(self, packet):
        """Every way to spoil one data packet of the transfer."""
        rng = self.rng
        body = bytearray(packet.payload[:-4])
        # Whatever slips through must show in the file.
        body[32:] = rng.randbytes(len(body) - 32)

        def changed(offset, field):
            copy = bytearray(body)
            copy[offset:offset + len(field)] = field
            return bytes(copy)

        self.send("garbage", rng.randbytes(rng.randrange(1, 1400)), sealed=False)
        self.send("truncated", bytes(body[:rng.randrange(1, 12)]), sealed=False)
        self.send("icrc", bytes(body) + rng.randbytes(4), sealed=False)
        self.send("version", changed(1, bytes([body[1] & 0xF0 | rng.randrange(1, 16)])))
        self.send("opcode", changed(0, bytes([rng.choice([0x0B, 0x04, 0xC0, 0x10, 0x81, 0x65])])))
        self.send("multipacket", changed(0, bytes([rng.choice([0x26, 0x27, 0x28, 0x29])])))
        self.send("qpn", changed(5, flip(packet.qpn, 24, rng).to_bytes(3, "big")))
        self.send("stranger", bytes(body), source=STRANGER)
        self.send("rkey", changed(20, struct.pack(">I", flip(packet.rkey, 32, rng))))
        self.send("slot", changed(28, struct.pack(">I", packet.imm ^ rng.randrange(1, 1 << 10) << 22)))
        # Far outside, and inside but where another packet belongs.
        self.send("offset", changed(12, struct.pack(">Q", packet.va ^ rng.randrange(1 << 20, 1 << 40))))
        self.send("offset", changed(12, struct.pack(">Q", packet.va ^ packet.length * rng.randrange(1, 64))))
        self.send("length", changed(24, struct.pack(">I", flip(packet.length, 31, rng))))

    def forge_control(self, packet):
        body = bytearray(packet.payload[:-4])
        body[12:16] = struct.pack(">I", struct.unpack_from(">I", body, 12)[0] ^ self.rng.randrange(1, 1 << 31))
        self.send("qkey", bytes(body))


def overhear(sniffer, forger, stop):
    """Spoils what passes by, a packet in every few milliseconds, as long as the transfer lasts."""
    while not stop.is_set():
        if not select.select([sniffer], [], [], 0.2)[0]:
            continue
        packet = roce.Packet(sniffer.recv(65536)[14:])
        forged = packet.opcode is None or packet.port != roce.PORT
        forged = forged or packet.source_port in {s.getsockname()[1] for s in forger.sockets.values()}
        if forged or packet.source != HOST:
            continue
        if packet.opcode == roce.UC_WRITE_ONLY_IMM:
            forger.forge_data(packet)
        elif packet.opcode == roce.UD_SEND_ONLY:
            forger.forge_control(packet)
        time.sleep(0.002)
        forget_old(sniffer)


def forget_old(sniffer):
    """What waited in the queue belongs to windows long closed."""
    try:
        for _ in range(QUEUE_MAX):
            sniffer.recv(1)
    except BlockingIOError:
        pass


def main():
    namespace.enter(lambda reason: skip("namespace", reason))
    namespace.segment_before_capture()
    rng = seed_from_environment()
    forger = Forger(rng)
    stop = threading.Event()
    with Directory() as directory, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sniffer:
        sniffer.bind(("lo", 0))
        sniffer.setblocking(False)
        thread = threading.Thread(target=overhear, args=(sniffer, forger, stop))
        thread.start()
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        write_sparse(source, SIZE)
        port = free_port()
        receiver = start_recv(target, port, "--json", "--drop", "15%")
        sender = start_send(source, HOST, port, "--json", "--drop", "15%").wait(60)
        receiver.wait(10)
        stop.set()
        thread.join()
        check(sender.status == 0, str(sender))
        check(receiver.status == 0, str(receiver))
        check(same(source, target), "the file was changed")
        results = [command.json() for command in (sender, receiver)]
    if check(all(results), f"JSON of both ends: {sender} {receiver}"):
        dropped = {k: results[0]["dropped"][k] + results[1]["dropped"].get(k, 0) for k in results[0]["dropped"]}
        print(f"sent {forger.sent}\ndropped {dropped}")
        for kind, counters in KINDS.items():
            check(forger.sent[kind] > 0, f"no packet of kind {kind} was sent")
            counted = sum(dropped.get(c, 0) for c in counters)
            check(counted > 0, f"{forger.sent[kind]} of kind {kind} sent, none counted")
        check(sum(dropped.values()) >= sum(forger.sent.values()) // 2,
              f"{sum(forger.sent.values())} forgeries, {sum(dropped.values())} counted")
    finish()


main()
