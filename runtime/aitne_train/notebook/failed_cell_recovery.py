"""Recovery of the connections between ranks after a cell that failed or was interrupted: ranks that
wait in vain are released, and all ranks connect again, so that the next cell can use them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from aitne_train.notebook.display import CellDisplay, format_ranks
from aitne_train.notebook.group_connection import GroupConnection
from aitne_train.notebook.rank_connections import CLOSE, CONNECT, FAILED

_ANSWER_S = 3.0
_STATE_S = 30.0
_CONNECT_S = 60.0
_TICK_S = 0.1
_MAKE_AGAIN = (
    "groups of new_group, and models in DistributedDataParallel or FSDP, must be made again"
)
_AITNE = {
    CONNECT: "The ranks are connected again (aitne_train): process sets must be added again.",
    CLOSE: "aitne_train is shut down on all ranks: call hvd.init() on all of them.",
}
_TORCH = {
    CONNECT: f"The ranks are connected again (torch.distributed): {_MAKE_AGAIN}.",
    CLOSE: (
        "The process groups of torch are destroyed: call init_process_group() on all ranks; "
        f"{_MAKE_AGAIN}."
    ),
}
"""Sentences by request: what has been done to the connections of each package."""


def release_ranks(link: GroupConnection, ranks: Sequence[int], reason: str) -> None:
    """Let collectives fail in which ranks wait for ``ranks``, or ``ranks`` themselves wait."""
    link.ask_ranks("disconnect_request", ranks, _ANSWER_S, {"reason": reason})


def recover_connections(link: GroupConnection, display: CellDisplay) -> None:
    """Connect all ranks again if their connections have failed or are out of step, and say so."""
    ranks = link.alive_ranks
    failures: dict[str, list[int]] = {}
    states = link.ask_ranks("connections_request", ranks, _STATE_S)
    if silent := sorted(set(ranks) & set(link.alive_ranks) - states.keys()):
        # Nothing is known of their connections, so nothing may be taken for intact.
        _report_failures(display, {"no answer": silent})
        return
    wanted = _choose_requests(states, len(ranks))
    if not wanted["aitne"] and not wanted["torch"]:
        return
    request = link.start("reconnect_request", wanted, ranks)
    open_ranks = set(ranks)
    give_up = time.monotonic() + _CONNECT_S
    try:
        while open_ranks and time.monotonic() < give_up:
            event = request.wait_for_event(_TICK_S)
            if event is None:
                continue
            if event.kind == "interrupt":
                break
            if event.kind in ("reply", "lost"):
                open_ranks.discard(event.rank)
            if event.kind == "reply" and event.message["content"]["status"] != "ok":
                text = str(event.message["content"]["message"])
                failures.setdefault(text, []).append(event.rank)
    finally:
        link.finish(request)
    if open_ranks:
        failures.setdefault("no answer", []).extend(sorted(open_ranks))
    _report_failures(display, failures)
    if not failures:
        display.print_line(_describe_recovery(wanted))


def _report_failures(display: CellDisplay, failures: Mapping[str, Sequence[int]]) -> None:
    for text, failed in failures.items():
        display.print_line(
            f"[{format_ranks(failed)}] The ranks could not be connected again ({text}): `%ranks stop` and "
            "`%ranks start` do."
        )


def _choose_requests(states: Mapping[int, Mapping[str, Any]], ranks: int) -> dict[str, Any]:
    """Return what the ranks must do; see ``RankConnections.connect``."""
    aitne = [state["aitne"] for state in states.values()]
    torch = [state["torch"] for state in states.values()]
    wanted: dict[str, Any] = {"aitne": None, "torch": None, "key": uuid.uuid4().hex}
    if FAILED in aitne:
        complete = len(aitne) == ranks and None not in aitne
        wanted["aitne"] = CONNECT if complete else CLOSE
    released = any(state["released"] for state in states.values())
    counts = [each for each in torch if each is not None]
    if counts and (released or any(each != counts[0] for each in counts)):
        complete = len(counts) == ranks == next(iter(states.values()))["ranks"]
        wanted["torch"] = CONNECT if complete else CLOSE
    return wanted


def _describe_recovery(wanted: Mapping[str, Any]) -> str:
    """Return the sentences about what the ranks have done."""
    sentences = (_AITNE.get(wanted["aitne"]), _TORCH.get(wanted["torch"]))
    return " ".join(sentence for sentence in sentences if sentence is not None)
