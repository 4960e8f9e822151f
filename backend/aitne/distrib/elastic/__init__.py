"""Elastic training, which continues after a failed collective and after changes of the nodes.

The state of a training loop is committed periodically, in memory. When a collective fails, all
ranks return to the last commit, connect again and continue. A rank that is *dead* cannot reconnect:
then the other ranks end too, and the launcher restarts all of them by its restart policy; such a
start begins from a checkpoint on disk.
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
