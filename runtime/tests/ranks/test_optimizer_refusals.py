"""Errors of `DistributedOptimizer`, and how a rank's failure reaches all other ranks."""

from __future__ import annotations

import os
import re
import signal
import warnings
from typing import Any

import pytest
import torch
from runtime.tests.ranks.optimizer_work import (
    MANY_BUCKETS,
    loss_of,
    network,
    sgd,
    share,
    started,
    wrapped,
)
from torch import nn

import aitne_train as hvd
from aitne_train.plugin_registry import PluginError
from tests.support.ranks import Pool, Rank


def refuse(me: Rank) -> None:
    with started():
        model = network()
        pairs = list(model.named_parameters())
        base = sgd(model)

        def refused(error: type[Exception], words: str, **arguments: Any) -> None:
            with pytest.raises(error, match=words):
                hvd.DistributedOptimizer(base, **{"named_parameters": pairs, **arguments})

        refused(ValueError, "unique.*duplicates: 0.bias", named_parameters=[*pairs, pairs[1]])
        refused(ValueError, "not named", named_parameters=pairs[1:])
        refused(ValueError, "tuples", named_parameters=[each for _, each in pairs])
        refused(ValueError, "must be > 0", backward_passes_per_step=0)
        refused(ValueError, "op != Average", gradient_predivide_factor=2.0, op=hvd.Sum)
        refused(ValueError, "non-negative", groups=-1)
        refused(ValueError, "torch.Tensor", groups=[["a"]])
        refused(ValueError, "only appear once", groups=[[pairs[0][1]], [pairs[0][1]]])
        refused(TypeError, "not a compression", compression=3)
        with pytest.warns(DeprecationWarning, match="groups"):
            hvd.DistributedOptimizer(base, pairs, num_groups=2)


def test_arguments_that_cannot_be_are_refused(pool: Pool) -> None:
    pool.run(refuse, 1)


def exchange_by_no_strategy(me: Rank) -> None:
    with started():
        model = network()
        optimizer = wrapped(model)
        loss_of(model, share(0, me.rank, me.size)).backward()
        with pytest.raises(PluginError, match="no exchange strategy 'gossip'; there is: allreduce"):
            optimizer.step()


def test_a_strategy_that_is_not_there_is_named(pool: Pool) -> None:
    pool.run(exchange_by_no_strategy, 2, environ={"AITNE_STRATEGY": "gossip"})


def misuse(me: Rank) -> None:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        for step in range(3):
            loss_of(model, share(step, rank, size)).backward()
            with pytest.raises(AssertionError, match="zero_grad"):
                optimizer.zero_grad()
            with pytest.raises(AssertionError, match=r"4\.(bias|weight)"):
                loss_of(model, share(step, rank, size)).backward()
            optimizer.step()
            optimizer.zero_grad()
        loss_of(model, share(3, rank, size)).backward()
        optimizer.synchronize()
        with pytest.warns(UserWarning, match="called without optimizer.skip_synchronize"):
            optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.step()
        optimizer.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, of a reference cycle
            loss_of(model, share(4, rank, size)).backward(create_graph=True)
        with pytest.raises(AssertionError, match="create_graph"):
            optimizer.step()
        hvd.barrier()  # who leaves is what the other would be told of first


def test_steps_in_the_wrong_order_are_refused(pool: Pool) -> None:
    pool.run(misuse, 2)


def differ(me: Rank, what: str) -> str:
    with started() as (rank, _):
        width = 5 if what == "shape" and rank == 1 else 4
        model = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2))
        if what == "dtype" and rank == 1:
            model = model.double()
        if what == "frozen" and rank == 1:
            model[1].bias.requires_grad_(False)
        compression = "fp16" if what == "compression" and rank == 1 else hvd.Compression.none
        optimizer = wrapped(model, compression=compression)
        model(torch.ones(2, 3, dtype=model[0].weight.dtype)).sum().backward()
        with pytest.raises(hvd.HorovodInternalError) as raised:
            optimizer.step()
        return str(raised.value)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("shape", r"parameter 0\.(bias|weight)"),
        ("dtype", r"parameter 0\.(bias|weight)"),
        ("frozen", r"parameter 1\.bias"),
        ("compression", "compression"),
    ],
)
def test_networks_that_differ_are_an_error_on_every_rank(pool: Pool, what: str, words: str) -> None:
    messages = pool.run(differ, 2, what)
    for each in messages:
        assert re.search(words, each), each


def lose(me: Rank, when: str) -> str:
    with started() as (rank, size):
        model = network()
        optimizer = wrapped(model)
        if when == "in backward":
            # Its own hook comes after the optimizer's: some buckets are on their way by then.
            model[2].weight.register_post_accumulate_grad_hook(
                lambda _: os.kill(os.getpid(), signal.SIGKILL) if rank == 1 and step == 2 else None
            )
        for step in range(1000):
            try:
                optimizer.zero_grad()
                loss_of(model, share(step, rank, size)).backward()
                if rank == 1 and step == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.step()
            except hvd.HorovodInternalError as error:
                return str(error)
        raise AssertionError("nothing was noticed")


@pytest.mark.parametrize("when", ["before step", "in backward"])
@pytest.mark.parametrize("environ", [{}, MANY_BUCKETS])
def test_survivors_are_told_who_is_gone(pool: Pool, when: str, environ: dict[str, str]) -> None:
    messages = pool.run(lose, 3, when, environ=environ, dying=[1])
    for each in (messages[0], messages[2]):
        assert "ank 1" in each
