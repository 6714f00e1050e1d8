#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A file of 5 GiB, larger than any 32-bit count, and a bounded amount of memory for it."""
import os
import resource

from harness import Directory, check, finish, same, skip, transfer

SIZE = (5 << 30) + 12345
MEMORY_KIB = 256 << 10


def main():
    if os.environ.get("GODWIT_LARGE") != "1":
        skip("large", "set GODWIT_LARGE=1")
    with Directory() as directory:
        room = os.statvfs(directory)
        if room.f_bavail * room.f_frsize < SIZE * 5 // 4:
            skip("large", f"{directory} has too little space")
        source, target = os.path.join(directory, "source"), os.path.join(directory, "target")
        with open(source, "wb") as out:
            out.truncate(SIZE)
            # Something to tell places apart, on both sides of every power of two.
            for shift in range(12, 33):
                for delta in (-5, 0):
                    out.seek((1 << shift) + delta)
                    out.write(shift.to_bytes(1, "big") * 4)
            out.seek(SIZE - 3)
            out.write(b"end")
        sender, receiver = transfer(source, target, recv_options=["--json"], send_options=["--json"], timeout=600)
        check(sender.status == 0, str(sender))
        check(receiver.status == 0, str(receiver))
        check(same(source, target), "the files differ")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        check(peak < MEMORY_KIB, f"{peak} KiB of memory were used")
        if sender.json():
            print(f"{sender.json()['goodput_bps'] / 1e9:.2f} Gbit/s, peak memory {peak} KiB")
    finish()


main()
