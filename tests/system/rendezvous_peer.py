# SPDX-License-Identifier: BSD-3-Clause
"""The rendezvous as bytes (src/rendezvous/frame.h), for tests that speak it themselves, well or badly."""
import socket
import struct

HEADER = struct.Struct(">8sHHI")
HELLO = struct.Struct(">I32s28s")
MAGIC = b"Godwit\r\n"
VERSION = 2
SERVICE_VERSION = 3
KIND_HELLO, KIND_WELCOME, KIND_REFUSE, KIND_DESCRIPTION, KIND_FIRST = 1, 2, 3, 4, 16


def frame(kind, body=b"", version=VERSION, length=None):
    return HEADER.pack(MAGIC, version, kind, len(body) if length is None else length) + body


def hello(service, version=SERVICE_VERSION, kind=KIND_HELLO):
    return frame(kind, HELLO.pack(version, service.encode(), b"0.0.test"))


def read_frame(connection):
    """(kind, body, version), or (None, b"", None) when the other end closed first."""
    data = b""
    wanted = HEADER.size
    while len(data) < wanted:
        part = connection.recv(wanted - len(data))
        if not part:
            return None, b"", None
        data += part
        if len(data) == HEADER.size:
            wanted += HEADER.unpack(data)[3]
    _, version, kind, _ = HEADER.unpack(data[:HEADER.size])
    return kind, data[HEADER.size:], version


def connect(port, data=b"", timeout=10):
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    connection.sendall(data)
    return connection
