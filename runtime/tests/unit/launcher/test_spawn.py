"""Tests of the error when a rank cannot be started."""

from __future__ import annotations

import errno
import os

import pytest

from aitne_train.launcher.rank_processes import NotStarted


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        (errno.ENOENT, 127, "Give a program of this node"),
        (errno.EACCES, 126, "Give a program of this node"),
        (errno.EMFILE, 126, "Start fewer ranks here"),
        (errno.EAGAIN, 126, "Start fewer ranks here"),
    ],
)
def test_a_limit_of_the_node_is_not_blamed_on_the_program(
    number: int, code: int, advice: str
) -> None:
    error = NotStarted("train", OSError(number, os.strerror(number)))
    assert error.code == code
    assert f"train cannot be started: {os.strerror(number)}. {advice}" in str(error)
