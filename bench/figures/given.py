# SPDX-License-Identifier: BSD-3-Clause
"""Numbers with units in the prose of a page that are no results of ours, so that bench/tables --check lets them stand:
settings of a test, goals, constants of the code, arithmetic, and what others have published. A page's entry is the text as
the page has it; one that the page has no more is an error, so that this list stays as short as it can be."""

GIVEN = {
    "README.md": ["1 %", "25 ms", "1 Gbit/s"],  # the link of `schemes`
    "docs/collectives.md": ["5 %", "1 %", "5 us", "15 %", "10 Gbit/s", "1 Gbit/s"],  # src/collective, netem's setting, the simulated links, a bound of a test
    "docs/completion.md": [
        "400 Gbit/s", "25 ms", "1 Gbit/s", "1 ms",  # the paths
        "6.5 times", "12.2 times",  # the SDR-RDMA paper
        "3 %", "5 %",  # bounds of the comparisons beside them
        "200 us", "5 ms",  # src/message: how long a result waits; from where on things are sent twice
        "15 %",  # arithmetic: 200 us of a lossless message
    ],
    "docs/congestion.md": [
        "1 Gbit/s", "10 Gbit/s", "200 Mbit/s", "25 ms", "0.2 ms", "20 s",  # the cases
        "0.1 to 5 ms", "0.1 to 0.5 ms", "0.1 ms", "1 ms", "3 ms", "6 ms", "15 to 30 s", "5 %", "0.3 ms", "60 %", "1.6 times", "15 %", "70 %",
        "1.75 times", "50 us", "25 us", "100 round trips",  # src/congestion
        "1 %", "10 Mbit/s", "100 Gbit/s",  # what its tests allow
    ],
    "docs/doctor.md": ["2 ms", "1 Gbit/s", "0.3 s", "30 s"],  # tools/doctor: steps of an examination
    "docs/interop.md": ["1 %", "0.5 %", "1 to 3 ms", "0.2 s", "0.4 s", "1 ms"],  # netem's settings; how long a slot rests
    "docs/lab.md": ["50 us", "60 us", "200 us", "1 Gbit/s"],  # lab/
    "docs/longhaul.md": [
        "25 ms", "0.2 ms", "1 Gbit/s", "4 Gbit/s", "1 %", "1 ms", "5 ms", "0.2 s",  # the links, and the warm-up
        "5 %", "1.3 times",  # goals
        "0.8 %", "17 ms",  # arithmetic: 1436 bytes of 1448; 1 MiB at 500 Mbit/s
        "67 ms", "10 ms",  # perftest's timer, a tick of the guest's kernel
        "3.5 times",  # the OptiNIC paper
    ],
    "docs/nccl.md": ["30 s", "60 s", "120 s", "10 to 15 s"],  # plugins/nccl
    "docs/performance.md": ["1.25 times", "2 %", "5 %", "80 %"],  # goals, and bounds of tests and marks
    "docs/plan.md": [
        "400 Gbit/s", "25 ms", "5 ms", "200 us", "0.5 and 1 ms", "1.125 and 1.25 round trips", "3 round trips",  # the path and src/message
        "6.5 times", "12.2 times", "4 times",  # the SDR-RDMA paper
        "2 %", "5 %", "8 %", "0.1 %", "95 %",  # bounds of tests; confidence
        "1 %", "50 GB/s", "80 GB/s",  # assumptions, with their source beside them
    ],
    "docs/sdr.md": ["10 s"],  # plugins/sdr
    "docs/testing.md": ["100 times"],  # the standard run's bar
}
