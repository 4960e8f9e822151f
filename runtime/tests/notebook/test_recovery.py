"""Cells in which ranks wait for a rank that has failed or was interrupted, and the cells after them."""

from __future__ import annotations

import os
import re
import signal
import threading

import pytest
from runtime.tests.notebook.conftest import Notebook

from aitne_train.notebook.cell import RankCellError, RanksInterrupt
from tests.support import realtime
from tests.support.requirements import need_package

# A cell starts ranks, and each of them imports torch, which takes long beside other tests.
pytestmark = [pytest.mark.timeout(300), realtime.RANKS]

SETUP = {
    "aitne": "import torch, aitne_train as hvd\nhvd.init()\nrank = hvd.rank()",
    "torch": (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nrank = dist.get_rank()"
    ),
}
SUM = {
    "aitne": "x = hvd.allreduce(torch.tensor([{} + rank]), op=hvd.Sum)",
    "torch": "x = torch.tensor([{} + rank])\ndist.all_reduce(x)",
}
END = {"aitne": "hvd.shutdown()", "torch": "dist.destroy_process_group()"}
LATE_RANK_0 = "import os, time\nif os.environ['RANK'] == '0':\n    time.sleep(1)\n"
AGAIN = {"aitne": "(aitne_train)", "torch": "(torch.distributed)"}
WAITING = {
    "aitne": "any(call.name == '_wait_for_request' for call in calls)",
    "torch": "dist.group.WORLD._get_sequence_number_for_group() > 0",
}
WAIT = """
import sys, threading, time, traceback
cell = threading.get_ident()
def report():
    calls = ()
    while not ({waiting}):
        time.sleep(0.01)
        calls = traceback.extract_stack(sys._current_frames()[cell])
    print('waiting')
if rank == 0:
    threading.Thread(target=report).start()
    {sum}
else:
    time.sleep(1000)
"""
"""A cell in which rank 0 waits for rank 1 in a sum, and says so."""


@pytest.mark.parametrize("package", ["aitne", "torch"])
def test_a_failed_rank_is_shown_at_once_and_those_that_wait_for_it_are_released(
    notebook: Notebook, package: str
) -> None:
    need_package("torch")
    notebook.ranks(f"{SETUP[package]}\nkept = 10 + rank")
    notebook.printed()
    with pytest.raises(RankCellError, match=r"rank 1 on .*: ValueError: bad sample 17") as failed:
        notebook.ranks(
            f"if rank == 1:\n    raise ValueError('bad sample 17')\n{SUM[package].format(100)}"
        )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", notebook.printed())
    assert "failed, before the end of rank 0:" in shown
    assert "raise ValueError('bad sample 17')" in shown
    last = "\n".join(failed.value._render_traceback_())
    assert "ValueError: bad sample 17" in last
    assert "Traceback" not in last
    assert f"The ranks are connected again {AGAIN[package]}" in shown
    assert notebook.ranks(f"{SUM[package].format(0)}\nx.item(), kept") == "(1, 10)"
    check_second_start(notebook, package)


@pytest.mark.usefixtures("harmless_interrupts")
@pytest.mark.parametrize("package", ["aitne", "torch"])
def test_cells_after_an_interrupted_collective_get_the_right_numbers(
    notebook: Notebook, package: str
) -> None:
    need_package("torch")
    notebook.ranks(SETUP[package])
    notebook.printed()

    def interrupt() -> None:
        notebook.wait_for("[0] waiting")
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = threading.Thread(target=interrupt)
    interrupts.start()
    summing = "\n    ".join(SUM[package].format(1000).splitlines())
    with pytest.raises((RanksInterrupt, RankCellError)):
        notebook.ranks(WAIT.format(waiting=WAITING[package], sum=summing))
    interrupts.join()
    assert f"The ranks are connected again {AGAIN[package]}" in notebook.printed()
    assert notebook.ranks(f"{SUM[package].format(10)}\nx.item()") == "21"
    assert notebook.ranks(f"{SUM[package].format(20)}\nx.item()") == "41"
    check_second_start(notebook, package)


def check_second_start(notebook: Notebook, package: str) -> None:
    """End the connection and start it again, as a user may do after an exception.

    Rank 0 starts last: rank 1 must wait for its address rather than find that of the first start.
    """
    notebook.ranks(END[package])
    notebook.ranks(LATE_RANK_0 + SETUP[package])
    assert notebook.ranks(f"{SUM[package].format(30)}\nx.item()") == "61"
    notebook.ranks(END[package])
