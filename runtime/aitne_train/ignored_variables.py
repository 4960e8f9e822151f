"""Environment variables of Horovod that have no effect in this runtime."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIX = "HOROVOD_"
_KNOWN = frozenset(
    {
        # read here
        *("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"),
        *("AUTOTUNE", "AUTOTUNE_LOG", "AUTOTUNE_WARMUP_SAMPLES", "AUTOTUNE_STEPS_PER_SAMPLE"),
        *("CACHE_CAPACITY", "DYNAMIC_PROCESS_SETS", "ELASTIC", "FUSION_THRESHOLD", "GLOO_IFACE"),
        *("STALL_CHECK_DISABLE", "STALL_CHECK_TIME_SECONDS", "STALL_SHUTDOWN_TIME_SECONDS"),
        *("TIMELINE", "TIMELINE_MARK_CYCLES"),
        # set by horovodrun itself for its ranks
        *("CONTROLLER", "CPU_OPERATIONS", "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT"),
        *("GLOO_TIMEOUT_SECONDS", "HOSTNAME", "NUM_NCCL_STREAMS", "THREAD_AFFINITY"),
    }
)


def list_ignored_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the names of Horovod's environment variables that are set in ``environ`` and have no
    effect in this runtime.
    """
    if environ.get("AITNE_TRANSPORT") == "horovod":  # the real library reads its own variables
        return []
    return sorted(
        name
        for name in environ
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _KNOWN
    )
