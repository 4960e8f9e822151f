"""Ends of rank groups: the notebook's error, and no process, socket or file is left."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest
from runtime.tests.notebook.conftest import Group, Notebook

from aitne_train.notebook import cell, rank_group_connection_files
from aitne_train.notebook.cell import RanksLostError
from aitne_train.notebook.rank_groups import RanksError
from tests.support import realtime

pytestmark = realtime.RANKS

Groups = Callable[..., Group]
Notebooks = Callable[[Group], Notebook]


def _nothing_left(group: Group) -> None:
    while group.processes():
        time.sleep(0.05)
    assert not group.folder.exists()
    assert list(group.temporary.iterdir()) == []


def test_a_killed_rank_is_named_and_the_notebook_continues(
    groups: Groups, notebooks: Notebooks
) -> None:
    group = groups(2)
    notebook = notebooks(group)
    notebook.shell.user_ns["kept"] = 1
    notebook.ranks("x = 1")
    pid = group.pid(1)
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    expected = (
        rf"rank 1 on {socket.gethostname()} was ended by signal 9 \(SIGKILL\), "
        "which the kernel also sends when memory runs out"
    )
    with pytest.raises(RanksLostError, match=expected):
        notebook.ranks("import time\ntime.sleep(1000)")
    assert group.ended() == 128 + signal.SIGKILL
    assert notebook.run("kept") == 1
    with pytest.raises(RanksError, match="No ranks are attached"):
        notebook.ranks("pass")
    _nothing_left(group)


def test_ranks_that_are_told_to_end_in_a_cell_are_named(
    groups: Groups, notebooks: Notebooks
) -> None:
    """As at the time limit of their job, or when it is preempted."""
    group = groups(2)
    notebook = notebooks(group)
    notebook.shell.user_ns["kept"] = 1

    def tell() -> None:
        notebook.wait_for_all("ready", 2)
        group.process.terminate()

    told = threading.Thread(target=tell)
    told.start()
    with pytest.raises(RanksLostError, match=r"rank \d on .* has ended.*attaches new ranks"):
        notebook.ranks("import time\nprint('ready')\ntime.sleep(1000)")
    told.join()
    group.ended()
    assert notebook.run("kept") == 1
    _nothing_left(group)


def test_a_killed_controller_ends_the_group(groups: Groups, notebooks: Notebooks) -> None:
    group = groups(2)
    notebook = notebooks(group)
    notebook.ranks("x = 1")
    children = [p for p in group.processes() if p.ppid() == group.pid(0)]
    controller = max(children, key=lambda process: len(process.children()))
    threading.Timer(0.5, controller.kill).start()
    with pytest.raises(RanksLostError, match="the controller of the ranks has ended"):
        notebook.ranks("import time\ntime.sleep(1000)")
    assert group.ended() != 0
    assert "the controller of the rank group has ended" in group.log.read_text()
    _nothing_left(group)


@pytest.mark.usefixtures("harmless_interrupts")
def test_a_second_interrupt_ends_ranks_that_ignore_everything(
    groups: Groups, notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "KILL_S", 1.0)
    group = groups(2)
    notebook = notebooks(group)
    code = """
import signal, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
print("ready")
time.sleep(1000)
"""

    printed = []

    def interrupt_twice() -> None:
        notebook.wait_for_all("ready", 2)
        # On a busy machine two signals may arrive as one.
        while "Second interrupt" not in "".join(printed):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            printed.append(notebook.printed())

    interrupts = threading.Thread(target=interrupt_twice)
    interrupts.start()
    with pytest.raises(RanksLostError, match="Ended by a second interrupt"):
        notebook.ranks(code)
    interrupts.join()
    assert group.ended() == 128 + signal.SIGKILL
    assert "killed (SIGKILL)" in "".join([*printed, notebook.printed()])
    _nothing_left(group)


def test_released_ranks_end_with_success(groups: Groups, notebooks: Notebooks) -> None:
    group = groups(2)
    notebook = notebooks(group)
    notebook.ranks("x = 1")
    notebook.run("%ranks stop")
    assert group.ended() == 0
    assert "aitne: Released" in group.log.read_text()
    _nothing_left(group)


@pytest.mark.long(third=2)
def test_idle_ranks_are_released_after_an_announcement(
    groups: Groups, notebooks: Notebooks
) -> None:
    group = groups(1, AITNE_RANKS_IDLE_S="4")
    notebook = notebooks(group)
    notebook.ranks("x = 1")
    assert rank_group_connection_files.read_status(group.folder).state == "ready"
    assert group.ended() == 0
    assert "they are released at" in notebook.printed()
    assert "aitne: Released after 4 seconds without work" in group.log.read_text()
    with pytest.raises(RanksError, match="Released after 4 seconds without work"):
        notebook.ranks("pass")
    _nothing_left(group)
