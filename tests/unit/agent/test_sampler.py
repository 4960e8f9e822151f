"""Processes of a job, which its agent measures."""

from __future__ import annotations

import os
import subprocess
import sys

from aitne.agent import sampler
from tests.support.waiting import eventually


def test_lists_of_children_have_those_of_threads_and_no_zombies() -> None:
    program = (
        "import os, subprocess, threading, time\n"
        "start = lambda: subprocess.Popen(['sh', '-c', 'sleep 60; true'])\n"
        "thread = threading.Thread(target=lambda: (start(), time.sleep(60)), daemon=True)\n"
        "thread.start()\n"
        "if not os.fork(): os._exit(0)\n"  # a zombie from now on
        "print('done', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        eventually(
            "the shell and its program run", lambda: len(sampler.descendants(child.pid)) == 2
        )
        found = sampler.listed_descendants(child.pid)
        assert sorted(found) == sorted(sampler.descendants(child.pid))
        for pid in (*found, child.pid):
            os.kill(pid, 9)
    assert sampler.listed_descendants(child.pid) == []
