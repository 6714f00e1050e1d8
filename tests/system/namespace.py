# SPDX-License-Identifier: BSD-3-Clause
"""A network of one's own: the test starts itself again in a fresh network namespace, with nobody else on its ports and
with the right to capture there, no privileges needed."""
import array
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

from harness import wait_until

MARK = "GODWIT_IN_NAMESPACE"

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCETHTOOL = 0x8913, 0x8914, 0x8946
IFF_UP = 1
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_SFEATURES = 0x1B, 0x37, 0x3B
ETH_SS_FEATURES = 4
STRING_SIZE = 32


def enter(skip):
    """Returns inside the namespace, with lo up; calls skip(reason) where there can be none."""
    if os.environ.get(MARK):
        lo_up()
        return
    probe = subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False)
    if probe.returncode:
        skip(probe.stderr.decode().strip() or "unshare failed")
    os.environ[MARK] = "1"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def lo_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack_from("16sH", fcntl.ioctl(s, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))


def ethtool(s, interface, data):
    buffer = ctypes.create_string_buffer(bytes(data), len(data))
    fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(buffer)))
    return buffer.raw


def segment_before_capture(interface="lo"):
    """Has an interface send single packets: a capture otherwise shows a batch of them as one huge datagram, and a link
    lets a batch pass whatever its MTU."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        info = ethtool(s, interface, struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0))
        count = struct.unpack_from("=I", info, 16)[0]
        names = ethtool(s, interface, struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count) + bytes(count * STRING_SIZE))
        strings = [names[12 + i * STRING_SIZE:12 + (i + 1) * STRING_SIZE].split(b"\0")[0] for i in range(count)]
        blocks = (count + 31) // 32
        words = array.array("I", [0] * (2 * blocks))
        index = strings.index(b"tx-udp-segmentation")
        words[2 * (index // 32)] = 1 << index % 32
        ethtool(s, interface, struct.pack("=II", ETHTOOL_SFEATURES, blocks) + words.tobytes())


def ip(arguments):
    subprocess.run(["ip", *arguments.split()], check=True)


class Host:
    """Another host: a namespace at the other end of cables, each with one name at both ends. This end of the i-th has the address
    10.78.i.1, and that end 10.78.i.2. Commands run there behind the words `enter`."""

    def __init__(self, cables):
        self.process = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        mine = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != mine)
        self.enter = ["nsenter", "-t", str(self.process.pid), "-n"]
        self.run("ip link set lo up")
        for index, name in enumerate(cables):
            ip(f"link add {name} type veth peer name {name} netns {self.process.pid}")
            ip(f"addr add 10.78.{index}.1/24 dev {name}")
            ip(f"link set {name} up")
            self.run(f"ip addr add 10.78.{index}.2/24 dev {name}")
            self.run(f"ip link set {name} up")

    def run(self, command):
        subprocess.run([*self.enter, *command.split()], check=True)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
