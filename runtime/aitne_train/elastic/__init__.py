"""Elastic training, which continues after a failed collective and after changes of the set of
nodes.

The state of a training loop is saved (committed) periodically, in memory. When a collective fails,
all ranks restore the last commit, connect again and continue. If the process of a rank has ended,
it cannot reconnect: then the other ranks end too, and the launcher restarts all ranks according to
its restart policy; training then continues from a checkpoint on disk.
"""

from aitne_train.elastic import sampler, state
from aitne_train.elastic.runner import notification_manager, run, run_fn
from aitne_train.elastic.sampler import ElasticSampler
from aitne_train.elastic.state import HostUpdateResult, ObjectState, State, TorchState

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
