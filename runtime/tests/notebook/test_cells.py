"""Cells on real ranks: state, output, values, errors and interrupts."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from IPython.core.error import UsageError
from runtime.tests.notebook.conftest import Group, Notebook

from aitne_train.notebook import cell, rank_group_connection_files
from aitne_train.notebook.cell import RankCellError, RanksInterrupt
from aitne_train.notebook.rank_groups import RankGroup, RanksError
from aitne_train.notebook.rank_table import LiveTable
from tests.support import realtime
from tests.support.requirements import need_package

pytestmark = realtime.RANKS

RANK = "import os; rank = int(os.environ['RANK'])"


def test_variables_of_ranks_are_kept_and_the_first_rank_gives_the_value(notebook: Notebook) -> None:
    assert notebook.ranks(f"{RANK}\ntotal = rank") is None
    assert notebook.ranks("total += 10\nprint('same')\nprint('mine', total)\ntotal") == "10"
    lines = notebook.printed().splitlines()
    assert "[0-1] same" in lines
    assert "[0] mine 10" in lines
    assert "[1] mine 11" in lines
    notebook.ranks("total = 'changed'", "-n 1")
    notebook.run("%pull total --all")
    assert notebook.run("total") == ["changed", 11]


def test_options_that_do_not_fit_are_sentences(notebook: Notebook) -> None:
    with pytest.raises(RanksError, match="-n 3 does not fit: the group has 2 ranks"):
        notebook.ranks("pass", "-n 3")
    with pytest.raises(RanksError, match="-n 2 does not fit: the group has 1 nodes"):
        notebook.ranks("pass", "-n 2 --one-per-node")
    with pytest.raises(UsageError, match="unrecognized arguments: --all"):
        notebook.ranks("pass", "--all")
    notebook.run("%ranks start 2")
    assert "2 ranks are attached already" in notebook.printed()
    with pytest.raises(RanksError, match="2 ranks are attached already"):
        notebook.run("%ranks start 3")


def test_versions_that_differ_are_said_before_the_cell_runs(
    groups: Callable[..., Group], notebooks: Callable[[Group], Notebook], tmp_path: Path
) -> None:
    """The rank finds the description of another NumPy before the installed one."""
    need_package("numpy")
    own = importlib.metadata.version("numpy")
    described = tmp_path / "other" / "numpy-0.1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    notebook = notebooks(groups(1, PYTHONPATH=str(described.parent)))
    with contextlib.redirect_stderr(sys.stdout):
        notebook.ranks("print('runs')")
        notebook.ranks("print('runs')")
    shown = notebook.printed()
    sentence = (
        f"The ranks have numpy 0.1, and this notebook has {own}: values that one of them pickles "
    )
    assert shown.index(sentence) < shown.index("[0] runs")
    assert (shown.count(sentence), shown.count("[0] runs")) == (1, 2)


def test_a_cell_sees_no_key_and_no_torch_that_it_did_not_import(
    notebook: Notebook, group: Group
) -> None:
    key = rank_group_connection_files.read_file(group.folder, rank_group_connection_files.CLIENT)[
        "key"
    ]
    code = f"import os, sys\n[{key!r} in ' '.join(os.environ.values()), 'torch' in sys.modules]"
    assert notebook.ranks(code) == "[False, False]"


def test_a_rank_imports_debugger_and_clusters_only_for_a_cell(notebook: Notebook) -> None:
    modules = "('debugpy', 'pydevd', 'ipyparallel.cluster')"
    assert notebook.ranks(f"import sys; [m for m in {modules} if m in sys.modules]") == "[]"
    assert notebook.ranks("import debugpy; debugpy.__name__") == "'debugpy'"
    code = "import ipyparallel; ipyparallel.Cluster.__module__"
    assert notebook.ranks(code) == "'ipyparallel.cluster.cluster'"
    assert notebook.ranks("from ipyparallel import ClusterManager") is None
    with pytest.raises(RankCellError, match="has no attribute 'Clusters'"):
        notebook.ranks("ipyparallel.Clusters")


def test_a_cell_that_communicated_says_how_much_of_its_time(notebook: Notebook) -> None:
    need_package("torch")
    cell = "import torch, aitne_train as hvd\nhvd.init()"
    notebook.ranks(cell)
    notebook.printed()
    notebook.ranks("for _ in range(3): hvd.allreduce(torch.ones(256), name='x')")
    assert re.search(
        r"^Communication: \d+% of \d+\.\d s: allreduce \d+% \(3 x, 3 KiB\)$",
        notebook.printed(),
        re.MULTILINE,
    )
    notebook.ranks("hvd.rank()")
    assert "Communication" not in notebook.printed()
    notebook.ranks("hvd.shutdown()")


def test_the_first_failure_is_shown_whole_and_the_others_in_a_line(notebook: Notebook) -> None:
    code = f"""
{RANK}
import time
if rank == 0:
    time.sleep(0.3)
    raise RuntimeError('Connection closed by peer')
def deep():
    return 1 / 0
deep()
"""
    with pytest.raises(RankCellError, match=r"rank 1 on .*: ZeroDivisionError") as failed:
        notebook.ranks(code)
    shown = "\n".join(failed.value._render_traceback_())
    assert "deep()" in shown
    assert "[0] RuntimeError: Connection closed by peer" in shown
    assert shown.count("Traceback") == 1
    assert notebook.ranks("'still ' + 'here'") == "'still here'"


def test_figures_and_progress_of_ranks_are_shown(notebook: Notebook) -> None:
    code = """
import sys
from IPython.display import HTML, display
display(HTML('<b>table</b>'))
print('\\r50%', end='', file=sys.stderr)
print('\\r100%', file=sys.stderr)
"""
    notebook.ranks(code)
    shown = notebook.printed()
    assert "[0-1]\n<IPython.core.display.HTML object>" in shown
    assert "[0-1] 100%" in shown


def test_values_are_pushed_and_pulled(notebook: Notebook) -> None:
    notebook.shell.user_ns.update(config={"lr": 0.1, "layers": (1, 2)}, data=b"\0" * 100)
    notebook.run("%push config data")
    assert notebook.ranks("config['layers'], len(data)") == "((1, 2), 100)"
    notebook.ranks(f"{RANK}\nfound = {{'rank': rank}}")
    notebook.run("%pull -r 1 found")
    assert notebook.run("found") == {"rank": 1}


def test_a_value_that_cannot_be_sent_is_named(notebook: Notebook) -> None:
    notebook.shell.user_ns["bad"] = {"inner": [threading.Lock()]}
    with pytest.raises(RanksError, match=r"bad\['inner'\]\[0\] cannot be sent: .*lock"):
        notebook.run("%push bad")
    notebook.ranks("import threading\nworse = {'lock': threading.Lock()}")
    with pytest.raises(RanksError, match=r"rank 0: worse\['lock'\] cannot be sent: .*lock"):
        notebook.run("%pull worse")
    with pytest.raises(RanksError, match="rank 0: nothing is not defined"):
        notebook.run("%pull nothing")


@pytest.mark.usefixtures("harmless_interrupts")
def test_an_interrupt_reaches_all_ranks_and_they_keep_their_variables(notebook: Notebook) -> None:
    notebook.ranks("kept = 1")

    def interrupt() -> None:
        notebook.wait_for_all("ready", 2)
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = threading.Thread(target=interrupt)
    interrupts.start()
    with pytest.raises(RanksInterrupt, match=r"interrupted on ranks \[0-1\]"):
        notebook.ranks("import time\nprint('ready')\ntime.sleep(1000)")
    interrupts.join()
    assert notebook.ranks("kept") == "1"


def test_ranks_for_which_others_are_done_are_named_with_their_line(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "GUARD_S", 0.5)
    code = f"{RANK}\nimport time\nif rank == 1:\n    time.sleep(3)"
    notebook.ranks(code)
    shown = notebook.printed()
    assert "rank 0 finished, but rank 1 did not" in shown
    assert "[1] line 4: time.sleep(3)" in shown


@pytest.mark.usefixtures("harmless_interrupts")
def test_ranks_that_wait_for_each_other_are_named_with_their_lines(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell, "STILL_S", 0.5)
    shown: list[str] = []

    def interrupt() -> None:
        while "get()" not in "".join(shown) or "wait()" not in "".join(shown):
            time.sleep(0.05)
            shown.append(notebook.printed())
        os.kill(os.getpid(), signal.SIGINT)

    interrupts = threading.Thread(target=interrupt)
    interrupts.start()
    code = f"{RANK}\nimport queue, threading\nif rank == 0:\n    queue.Queue().get()\nthreading.Event().wait()"
    with pytest.raises(RanksInterrupt, match=r"interrupted on ranks \[0-1\]"):
        notebook.ranks(code)
    interrupts.join()
    lines = "".join(shown)
    assert "ranks stand in different lines of the cell" in lines
    assert "[0] line 4: queue.Queue().get()" in lines
    assert "[1] line 5: threading.Event().wait()" in lines


def test_output_beyond_the_bound_of_a_cell_is_in_a_file(notebook: Notebook, group: Group) -> None:
    notebook.ranks(
        f"{RANK}\nif rank == 1:\n    for i in range(40_000): print('%06d' % i + 'x' * 93)"
    )
    shown = notebook.printed()
    note = next(line for line in shown.splitlines() if "MB more" in line)
    path = Path(note.rpartition(" in ")[2])
    kept = [line[:6] for line in path.read_text().splitlines()]
    sent = {line[4:10] for line in shown.splitlines() if line.startswith("[1] 0")}
    assert sorted(sent) + kept == [f"{number:06}" for number in range(40_000)]
    path.unlink()


def test_100_mb_of_prints_fill_no_memory_and_are_kept(notebook: Notebook, group: Group) -> None:
    """As while the page is closed: `%ranks output` shows what a page that was open has got."""
    before = {process.pid: process.memory_info().rss for process in group.processes()}
    notebook.ranks(
        f"{RANK}\nif rank == 0:\n    for i in range(100): print(('x' * 99 + '\\n') * 10_000)"
    )
    shown = notebook.printed()
    assert len(shown) < 4 << 20
    note = next(line for line in shown.splitlines() if "MB more" in line)
    path = Path(note.rpartition(" in ")[2])
    kept = path.stat().st_size
    path.unlink()
    sent = sum(len(line) - len("[0] ") + 1 for line in shown.splitlines() if "] x" in line)
    assert abs(kept + sent - 100_000_000) <= 100  # the empty line after each print
    for process in group.processes():
        assert process.memory_info().rss - before[process.pid] < 60 << 20, process
    notebook.run("%ranks output")
    assert notebook.printed() == shown


@pytest.mark.parametrize("ended", [False, True], ids=["two kernels", "restarted kernel"])
def test_a_cell_waits_for_that_of_another_kernel(
    notebook: Notebook, group: Group, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr(cell, "WAIT_S", 0.2)
    notebook.ranks(f"{RANK}\norder = []\nimport time")
    other = RankGroup(group.folder)
    slow = other.link.start(
        "execute_request",
        {
            "code": "order.append('other'); time.sleep(2); order.append('end')",
            "silent": True,
            "user_expressions": {},
        },
        [0, 1],
    )
    assert slow.wait_for_event(30) is not None  # it has begun
    if ended:
        other.close()
    notebook.ranks("order.append('mine')")
    notebook.run("%pull order --all")
    assert notebook.run("order") == [["other", "end", "mine"]] * 2
    assert "still execute a cell of another kernel" in notebook.printed()
    if not ended:
        other.link.finish(slow)
        other.close()


def test_a_new_kernel_finds_the_ranks_and_their_variables(notebook: Notebook, group: Group) -> None:
    notebook.ranks("kept = 'from before'")
    notebook.shell.aitne_ranks._detach_group()  # as a kernel that ends
    assert notebook.ranks("kept") == "'from before'"


def test_the_table_names_rank_node_and_memory_and_is_updated(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveTable, "PERIOD_S", 0.1)
    notebook.ranks("pass")
    notebook.printed()
    notebook.run("%ranks")
    head, *rows = notebook.printed().strip().splitlines()[:3]
    assert head.split()[:4] == ["Rank", "Node", "GPU", "Memory"]
    assert [row.split()[0] for row in rows] == ["0", "1"]
    assert all("MiB" in row for row in rows)
    while head not in notebook.printed():  # the age of the ranks grows
        time.sleep(0.05)


_STRANGER = """
import os, socket, stat, sys, zmq
context, poller = zmq.Context(), zmq.Poller()
if os.geteuid() == 0:  # now that the modules are loaded: the other account may not read them
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
paths = [path for path in sys.argv[1:] if path.startswith('/')]
for address in set(sys.argv[1:]).difference(paths):
    for kind in (zmq.SUB, zmq.DEALER):
        for curve in (False, True):
            public, secret = zmq.curve_keypair()
            socket = context.socket(kind)
            socket.linger = 0
            if curve:
                socket.curve_serverkey = zmq.curve_keypair()[0]
                socket.curve_publickey, socket.curve_secretkey = public, secret
            if kind == zmq.SUB:
                socket.subscribe(b'')
            socket.connect('tcp://' + address)
            if kind == zmq.DEALER:
                socket.send_multipart([b'<IDS|MSG>', b'', b'{"msg_type": "connection_request"}', b'{}', b'{}', b'{}'])
            poller.register(socket, zmq.POLLIN)
print('ready', flush=True)
sys.stdin.readline()
print('answers', len(poller.poll(500)))
refused = 0
for path in paths:
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            socket.socket(socket.AF_UNIX).connect(path)
        else:
            os.listdir(path) if os.path.isdir(path) else open(path)
    except (FileNotFoundError, PermissionError):
        refused += 1
print('refused', refused)
"""


def test_strangers_get_no_answer_and_no_file(notebook: Notebook, group: Group) -> None:
    ports = {
        f"{line.laddr.ip}:{line.laddr.port}"
        for process in group.processes()
        for line in process.net_connections("tcp")
        if line.status == psutil.CONN_LISTEN and "aitne_train.launcher" not in process.cmdline()
    }
    assert len(ports) > 5
    private = {
        str(line.laddr)
        for process in group.processes()
        for line in process.net_connections("unix")
        if str(line.laddr).startswith("/")
    }
    paths = {str(group.folder), *map(str, group.folder.rglob("*")), *private}
    assert str(group.folder / rank_group_connection_files.CLIENT) in paths
    stranger = subprocess.Popen(
        [sys.executable, "-c", _STRANGER, *paths, *ports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    assert stranger.stdout is not None
    assert stranger.stdout.readline() == "ready\n"
    notebook.ranks("print('a secret')")
    out, _ = stranger.communicate("\n", timeout=60)
    assert "answers 0" in out
    if os.geteuid() == 0:
        assert f"refused {len(paths)}\n" in out
