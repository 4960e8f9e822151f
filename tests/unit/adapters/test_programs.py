"""Signals during the start of a program, which wait until the program can be ended."""

from __future__ import annotations

import signal
import threading

import pytest

from aitne.adapters.program_runner import delay_signals
from aitne.cli.signal_cleanup import exit_on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_the_program_is_held(number: signal.Signals) -> None:
    done = []
    with pytest.raises(SystemExit) as ended, exit_on_signals(), delay_signals():  # noqa: PT012
        signal.raise_signal(number)
        done.append("held")
    assert (done, ended.value.code) == (["held"], 128 + number)


def test_an_interrupt_waits_too() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), delay_signals():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        done.append("held")
    assert done == ["held"]


def test_handlers_are_put_back_and_an_error_is_not_hidden() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="no such program"), delay_signals():
        raise ValueError("no such program")
    assert signal.getsignal(signal.SIGINT) is before


def test_program_is_taken_in_other_thread() -> None:
    done = []

    def take() -> None:
        with delay_signals():
            done.append("held")

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert done == ["held"]
