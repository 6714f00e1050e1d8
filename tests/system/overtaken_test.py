#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A sender whose last results are lost or late, while the receiver's verdict on the whole file has come: it says that all was
delivered, and counts all of it. The way back loses and reorders packets, so that in some of the transfers this happens."""
import json
import os

from harness import GODWIT, Command, Directory, check, finish
from labs import probe

TRANSFERS = 10
SIZE = 100_000
SETTINGS = ["--hosts", 2, "--rtt", "20ms", "--rate", "50M", "--link", "0:down:loss=0.3,jitter=60ms,reorder=0.3:60ms"]
SCRIPT = """
for i in $(seq 1 "$3"); do
    if [ $RANK = 1 ]; then "$1" recv "$2/copy$i" --port $((18700 + i)) --quiet
    else "$1" send "$2/file" $GODWIT_HOST_1 --port $((18700 + i)) --json --block 4096; fi
done
"""


def main():
    probe()
    with Directory() as folder:
        with open(os.path.join(folder, "file"), "wb") as file:
            file.write(os.urandom(SIZE))
        lab = Command("lab", *SETTINGS, "--", "sh", "-c", SCRIPT, "sh", os.path.abspath(GODWIT), folder, TRANSFERS).wait(80)
    told = [json.loads(line[4:]) for line in (lab.stdout + lab.stderr).splitlines() if line.startswith("[0] {")]
    check(len(told) == TRANSFERS, f"{len(told)} of {TRANSFERS} transfers: {lab}")
    for one in told:
        check(not one["ok"] or one["bytes"] == SIZE, f"{one['bytes']} of {SIZE} bytes, and all is well: {one}")
    check(any(one["ok"] for one in told), f"none arrived: {told}")
    finish()


main()
