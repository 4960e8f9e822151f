"""The example networks have the sizes that their papers give."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

EXAMPLES = Path(__file__).parents[3] / "runtime/examples"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


def parameters(network: nn.Module) -> int:
    return sum(each.numel() for each in network.parameters())


def multiply_adds(network: nn.Module, *shape: int) -> int:
    """Return the multiply-adds for one example of this shape.

    PyTorch's own counter counts two operations for each.
    """
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.eval()(torch.zeros(1, *shape))
    return int(counter.get_total_flops()) // 2


def test_lenet5_has_its_sixty_thousand_parameters_and_its_connections() -> None:
    from models import LeNet5

    network = LeNet5()
    # LeCun et al. 1998, section II.B: per layer 156, 12, 1,516, 32, 48,120 and 10,164; the head is ours.
    assert parameters(network.trunk) == 156 + 12 + 1_516 + 32 + 48_120 + 10_164 == 60_000
    # The paper's connections of C1, C3, C5 and F6 count a bias each, which is no multiplication.
    connections = 122_304 + 151_600 + 48_120 + 10_164
    biases = 28 * 28 * 6 + 10 * 10 * 16 + 120 + 84
    assert multiply_adds(network.trunk, 1, 32, 32) == connections - biases
    assert network(torch.zeros(2, 1, 32, 32)).shape == (2, 10)


def test_resnet50_has_the_papers_parameters_and_multiply_adds() -> None:
    from models import ResNet50

    network = ResNet50()
    # He et al. 2016, table 1: 3.8 billion; the parameters of the usual implementations.
    assert parameters(network) == 25_557_032
    assert multiply_adds(network, 3, 224, 224) == pytest.approx(3.8e9, rel=0.02)


def test_edsr_has_the_papers_parameters() -> None:
    from models import EDSR

    # Lim et al. 2017, table 1: 43 million, and 1.5 million for the baseline.
    assert parameters(EDSR(blocks=32, features=256, residual_scale=0.1)) == pytest.approx(
        43e6, rel=0.01
    )
    baseline = EDSR()
    assert parameters(baseline) == pytest.approx(1.5e6, rel=0.02)
    # 3 x 3 convolutions: one in front and 33 behind it on the small picture, two that enlarge, the last.
    small, features = 48 * 48, 64
    body = 9 * small * (3 * features + 33 * features**2)
    tail = 9 * features**2 * 4 * small * (1 + 4) + 9 * features * 3 * 16 * small
    assert multiply_adds(baseline, 3, 48, 48) == body + tail
    assert baseline(torch.zeros(1, 3, 48, 48)).shape == (1, 3, 192, 192)
