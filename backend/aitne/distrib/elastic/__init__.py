"""Training that goes on after a failed collective, and after nodes have come or gone.

The state of a loop is committed now and then, in memory. When a collective fails, all ranks go back to
the last commit, find each other anew and go on. A rank that is *dead* cannot be found again: then the
survivors end too, and the launcher starts all of them again, by its policy for restarts; what such a
start begins from is a checkpoint on disk.
"""

from aitne.distrib.elastic import sampler, state
from aitne.distrib.elastic.runner import notification_manager, run, run_fn
from aitne.distrib.elastic.sampler import ElasticSampler
from aitne.distrib.elastic.state import HostUpdateResult, ObjectState, State, TorchState

__all__ = [
    "ElasticSampler",
    "HostUpdateResult",
    "ObjectState",
    "State",
    "TorchState",
    "notification_manager",
    "run",
    "run_fn",
    "sampler",
    "state",
]
