# SPDX-License-Identifier: BSD-3-Clause
"""Collectives over unreliable RDMA, on anything with the buffer protocol and on NumPy arrays.

    import godwit, numpy

    with godwit.Communicator() as comm:         # ranks from torchrun's, mpirun's or srun's environment
        gradient = numpy.full(1 << 20, comm.rank, "f4")
        comm.allreduce(gradient, reduction="mean")

godwit.torch is a backend for torch.distributed.
"""
from .bounded import BoundedReport
from .communicator import Communicator
from .library import Error, library_version
from .operation import Operation

__all__ = ["BoundedReport", "Communicator", "Error", "Operation", "library_version"]
