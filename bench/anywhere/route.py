#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sets the initial windows of TCP on the lab's route, as `ip route change 10.200.0.0/24 dev lab0 initcwnd N initrwnd N` does,
where there is no ip command: one rtnetlink request. linux/rtnetlink.h and linux/netlink.h have the numbers.

Usage: route.py PACKETS
"""
import socket
import struct
import sys

NETWORK, PREFIX, DEVICE = "10.200.0.0", 24, "lab0"
RTM_NEWROUTE = 24
FLAGS = 0x1 | 0x4 | 0x100  # request, acknowledge, replace
TABLE_MAIN, PROTOCOL_KERNEL, SCOPE_LINK, UNICAST = 254, 2, 253, 1
RTA_DST, RTA_OIF, RTA_METRICS = 1, 4, 8
RTAX_INITCWND, RTAX_INITRWND = 11, 14
NLMSG_ERROR = 2


def attribute(kind, body):
    return struct.pack("=HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


def request(packets):
    metrics = attribute(RTAX_INITCWND, struct.pack("=I", packets)) + attribute(RTAX_INITRWND, struct.pack("=I", packets))
    body = struct.pack("=BBBBBBBBI", socket.AF_INET, PREFIX, 0, 0, TABLE_MAIN, PROTOCOL_KERNEL, SCOPE_LINK, UNICAST, 0)
    body += attribute(RTA_DST, socket.inet_aton(NETWORK))
    body += attribute(RTA_OIF, struct.pack("=I", socket.if_nametoindex(DEVICE)))
    body += attribute(RTA_METRICS, metrics)
    return struct.pack("=IHHII", 16 + len(body), RTM_NEWROUTE, FLAGS, 1, 0) + body


def main():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(request(int(sys.argv[1])))
        answer = netlink.recv(4096)
    kind = struct.unpack_from("=H", answer, 4)[0]
    error = struct.unpack_from("=i", answer, 16)[0]
    if kind != NLMSG_ERROR or error:
        sys.exit(f"route.py: the kernel refused: {-error}")


main()
