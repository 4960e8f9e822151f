"""The networks of the field's papers, with the sizes that the papers give.

Parameters and multiply-adds of each are checked against its paper by ``runtime/tests/ranks/test_workloads.py``.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

# Which of the six maps of S2 each of the sixteen maps of C3 sees: LeCun et al. 1998, table I.
LENET_C3 = (
    (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (0, 4, 5), (0, 1, 5),
    (0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (0, 3, 4, 5), (0, 1, 4, 5), (0, 1, 2, 5),
    (0, 1, 3, 4), (1, 2, 4, 5), (0, 2, 3, 5), (0, 1, 2, 3, 4, 5),
)  # fmt: skip


class Squash(nn.Module):
    """The paper's scaled hyperbolic tangent (appendix A): about 1 where its argument is 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of ``x``."""
        return 1.7159 * torch.tanh(x * (2 / 3))


class Subsampling(nn.Module):
    """The sum of four neighbours, times a trained coefficient, plus a trained bias; per map."""

    def __init__(self, maps: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((maps, 1, 1), 0.25))
        self.bias = nn.Parameter(torch.zeros(maps, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, maps, height, width) to half the height and width."""
        return functional.avg_pool2d(x, 2) * 4 * self.weight + self.bias


class PartlyConnected(nn.Module):
    """LeNet-5's C3: a convolution of which each map sees some maps below only."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Conv2d(len(seen), 1, 5) for seen in LENET_C3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 6, 14, 14) to (batch, 16, 10, 10)."""
        pairs = zip(LENET_C3, self.parts, strict=True)
        return torch.cat([part(x[:, list(seen)]) for seen, part in pairs], dim=1)


class LeNet5(nn.Module):
    """LeCun, Bottou, Bengio, Haffner 1998: 60,000 trained parameters up to F6.

    The ten radial basis functions at the paper's end have fixed codes; here a linear layer of 850
    parameters stands in their place.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 6, 5), Squash(), Subsampling(6), Squash(),
            PartlyConnected(), Squash(), Subsampling(16), Squash(),
            nn.Conv2d(16, 120, 5), Squash(), nn.Flatten(),
            nn.Linear(120, 84), Squash(),
        )  # fmt: skip
        self.head = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 1, 32, 32) to (batch, 10)."""
        return self.head(self.trunk(x))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with a way around; the first 1x1 has the stride, as in the paper."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, inputs, h, w) to (batch, 4 width, h / stride, w / stride)."""
        return functional.relu(self.body(x) + self.around(x))


class ResNet50(nn.Module):
    """He, Zhang, Ren, Sun 2016: 25.6 million parameters, 3.8 billion multiply-adds at 224 x 224."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
            nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        inputs = 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for index in range(blocks):
                layers.append(Bottleneck(inputs, width, stride if index == 0 else 1))
                inputs = 4 * width
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 3, 224, 224) to (batch, classes)."""
        return self.head(self.layers(x))


class ResidualBlock(nn.Module):
    """EDSR's: no batch normalisation, and its output scaled."""

    def __init__(self, features: int, scale: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(features, features, 3, padding=1),
            nn.ReLU(True),
            nn.Conv2d(features, features, 3, padding=1),
        )
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of ``x``."""
        return x + self.scale * self.body(x)


class EDSR(nn.Module):
    """Lim, Son, Kim, Nah, Lee 2017: single-image super-resolution.

    The paper's large network (``blocks=32, features=256, residual_scale=0.1``) has 43 million
    parameters, its baseline (16 blocks, 64 features) 1.5 million, both at scale 4.
    """

    def __init__(
        self, blocks: int = 16, features: int = 64, scale: int = 4, residual_scale: float = 1.0
    ) -> None:
        super().__init__()
        if scale not in (2, 4):
            raise ValueError(f"EDSR enlarges 2 or 4 times, not {scale} times")
        self.head = nn.Conv2d(3, features, 3, padding=1)
        body = [ResidualBlock(features, residual_scale) for _ in range(blocks)]
        self.body = nn.Sequential(*body, nn.Conv2d(features, features, 3, padding=1))
        tail: list[nn.Module] = []
        for _ in range(scale // 2):
            tail += [nn.Conv2d(features, 4 * features, 3, padding=1), nn.PixelShuffle(2)]
        self.tail = nn.Sequential(*tail, nn.Conv2d(features, 3, 3, padding=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 3, h, w) to (batch, 3, scale h, scale w); values of 0 to 1."""
        shallow = self.head(x - 0.5)
        return self.tail(shallow + self.body(shallow)) + 0.5
