"""Tests of the observation of the main thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from aitne_train.main_thread_observer import MainThreadActivity, MainThreadObserver

RIVAL = "import sys; print(flush=True)\nwhile True: pass"
MOST_S = 30


def test_main_thread_that_shares_its_processor_is_starved_and_not_idle() -> None:
    """Two programs that compute share one processor: each waits for it half of the time."""
    own = os.sched_getaffinity(0)
    seen: list[MainThreadActivity] = []
    starved = threading.Event()

    def observe() -> None:
        observer = MainThreadObserver(None, 60.0)
        while not starved.wait(0.2) and len(seen) < MOST_S / 0.2:
            seen.append(observer.observe())
            if seen[-1].starved_s - seen[0].starved_s > 0.2:
                starved.set()

    os.sched_setaffinity(0, {min(own)})
    rival = subprocess.Popen([sys.executable, "-c", RIVAL], stdout=subprocess.PIPE)
    try:
        assert rival.stdout is not None
        rival.stdout.readline()
        thread = threading.Thread(target=observe)
        thread.start()
        until = time.monotonic() + MOST_S
        while not starved.is_set() and time.monotonic() < until:
            sum(range(10_000))
        thread.join()
    finally:
        rival.kill()
        rival.communicate()
        os.sched_setaffinity(0, own)
    assert starved.is_set()
    assert max(each.starved_share for each in seen) > 0.1
    assert max(each.idle_s for each in seen) == 0
