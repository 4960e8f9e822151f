"""Tests of the thread that exchanges gradients during backward."""

from __future__ import annotations

import os
import threading

import pytest
import torch
from runtime.tests.ranks.optimizer_work import started
from torch import nn

import aitne_train as hvd
from tests.support import realtime
from tests.support.ranks import Pool, Rank

pytestmark = realtime.RANKS


def train(me: Rank, bound: bool) -> tuple[bool, float]:
    """Train with 3 MiB of gradients.

    Returns:
        Whether there was an exchange thread, and the value of a parameter afterwards.
    """
    allowed = os.sched_getaffinity(0)
    if bound:
        os.sched_setaffinity(0, {sorted(allowed)[me.rank % len(allowed)]})
    try:
        with started() as (rank, _):
            model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(3)))
            for parameter in model.parameters():
                nn.init.constant_(parameter, 0.001)
            optimizer = hvd.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters()
            )
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.full((2, 512), rank + 1.0)).sum().backward()
                optimizer.step()
            names = {each.name for each in threading.enumerate()}
            return "aitne-exchange" in names, next(model.parameters())[0, 0].item()
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_rank_with_one_processor_exchanges_without_a_thread(pool: Pool) -> None:
    environ = {"AITNE_TRANSPORT": "torch_pg"}
    alone = pool.run(train, 2, True, environ=environ)
    assert [thread for thread, _ in alone] == [False, False]
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor")
    # As on two nodes, each rank has this machine's processors for itself.
    roomy = pool.run(train, 2, False, nodes=(0, 1), environ=environ)
    assert [thread for thread, _ in roomy] == [True, True]
    assert {value for _, value in alone} == {value for _, value in roomy}
