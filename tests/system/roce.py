# SPDX-License-Identifier: BSD-3-Clause
"""RoCEv2 packets as a test sees them: taken apart, put together, with the ICRC computed the slow and obvious way.

Written from the specification and not from the library's own code, so that the two check each other.
"""
import socket
import struct
import zlib

UC_WRITE_ONLY_IMM = 0x2B
UD_SEND_ONLY = 0x64
PORT = 4791


def icrc(ip, udp, payload):
    """Of a packet with these headers, as the 4 bytes that end it. What routers may change counts as ones."""
    ip, udp, bth = bytearray(ip), bytearray(udp), bytearray(payload)
    if ip[0] >> 4 == 4:
        ip[1] = 0xFF
        ip[8] = 0xFF
        ip[10:12] = b"\xff\xff"
    else:
        ip[0] |= 0x0F
        ip[1:4] = b"\xff\xff\xff"
        ip[7] = 0xFF
    udp[6:8] = b"\xff\xff"
    bth[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + bth))


class Packet:
    """One UDP datagram, from the IP header on."""

    def __init__(self, frame):
        if frame[0] >> 4 == 4:
            size = (frame[0] & 15) * 4
            length = struct.unpack_from(">H", frame, 2)[0]
            self.protocol = frame[9]
            self.source = socket.inet_ntop(socket.AF_INET, frame[12:16])
            self.target = socket.inet_ntop(socket.AF_INET, frame[16:20])
        else:
            size = 40
            length = 40 + struct.unpack_from(">H", frame, 4)[0]
            self.protocol = frame[6]
            self.source = socket.inet_ntop(socket.AF_INET6, frame[8:24])
            self.target = socket.inet_ntop(socket.AF_INET6, frame[24:40])
        self.whole = len(frame) >= length
        frame = frame[:length]
        self.ip, self.udp, self.payload = frame[:size], frame[size:size + 8], frame[size + 8:]
        if self.protocol != socket.IPPROTO_UDP or len(self.payload) < 16:
            self.opcode = None
            return
        self.source_port, self.port = struct.unpack(">HH", self.udp[:4])
        bth = self.payload
        self.opcode = bth[0]
        self.pad = bth[1] >> 4 & 3
        self.qpn = int.from_bytes(bth[5:8], "big")
        self.psn = int.from_bytes(bth[9:12], "big")
        self.icrc = self.payload[-4:]
        if self.opcode == UC_WRITE_ONLY_IMM:
            self.va, self.rkey, self.length, self.imm = struct.unpack_from(">QIII", bth, 12)
            self.data = self.payload[32:len(self.payload) - 4 - self.pad]

    def icrc_is_right(self):
        return icrc(self.ip, self.udp, self.payload[:-4]) == self.icrc


def finish_ipv4(payload, source, source_port, target, port):
    """Appends the ICRC that the packet will have as a datagram with DF set and identification 0."""
    length = len(payload) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + length, 0, 0x4000, 64, 17, 0, socket.inet_aton(source),
                     socket.inet_aton(target))
    udp = struct.pack(">HHHH", source_port, port, 8 + length, 0)
    return payload + icrc(ip, udp, payload)


def read_pcap(path):
    """The IP packets of a capture on the loopback interface (Ethernet framing), in order."""
    with open(path, "rb") as capture:
        data = capture.read()
    magic, link_type = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, 20)[0]
    assert magic in (0xA1B2C3D4, 0xA1B23C4D) and link_type == 1, f"magic {magic:x}, link type {link_type}"
    offset = 24
    while offset + 16 <= len(data):
        length = struct.unpack_from("<I", data, offset + 8)[0]
        frame = data[offset + 16:offset + 16 + length]
        offset += 16 + length
        yield Packet(frame[14:])
