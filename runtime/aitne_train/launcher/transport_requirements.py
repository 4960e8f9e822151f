"""Requirements of the training runtime's transports, which the launcher and the platform check.

The transports' own modules cannot declare them, because they import torch, which neither of the two
has. A transport that is not named here has no requirements.
"""

from __future__ import annotations

NEEDS_MPI = {
    "mpi": "MPI's own launcher would have to start the ranks on the other nodes",
    "horovod": "the real library's MPI would have to start the ranks on the other nodes",
}
"""Transports whose ranks must be started by MPI, with the reason why a job of the platform cannot
use them on several nodes."""
ONE_NODE = {**NEEDS_MPI, "shm": "nodes share no memory"}
"""Transports that a job of the platform can use on one node only, with the reasons."""
