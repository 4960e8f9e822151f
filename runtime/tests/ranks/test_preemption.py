"""The preemption signal is handled by a rank and not by its child processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests.support import realtime

pytestmark = realtime.RANKS


@pytest.mark.timeout(120)
def test_a_child_of_a_rank_can_be_ended() -> None:
    """Python ends its daemon processes by SIGTERM when it exits, and waits for them."""
    program = textwrap.dedent(
        """
        import multiprocessing, signal, time
        import aitne_train as hvd
        from aitne_train.preemption import Preemption

        hvd.init()
        stop = Preemption()
        def work():
            sender.send("at work")
            time.sleep(50)

        receiver, sender = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        receiver.recv()
        child.terminate()
        child.join(30)
        assert child.exitcode == -signal.SIGTERM, child.exitcode
        assert not stop.after_step()
        signal.raise_signal(signal.SIGTERM)
        while not stop.after_step():
            pass
        stop.leave()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 75, done.stderr
