"""Needs of the training runtime's transports that the launcher and the platform check.

The transports' own modules cannot declare them, because they import torch, which neither of the two
has. A transport that is not named here has none.
"""

from __future__ import annotations

NEEDS_MPI = {
    "mpi": "MPI's own launcher would have to start the ranks on the other nodes",
    "horovod": "the real library's MPI would have to start the ranks on the other nodes",
}
"""Transports whose ranks MPI starts, and why a job of the platform cannot use several nodes."""
ONE_NODE = {**NEEDS_MPI, "shm": "nodes share no memory"}
"""Transports for the ranks of one node of a job of the platform, and the reasons."""
