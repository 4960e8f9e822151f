"""Base class of both distributed optimizers, with the names of their parameters."""

from __future__ import annotations

import torch


class NamedOptimizer(torch.optim.Optimizer):
    """Base class of optimizers in which each parameter has a name; ranks match gradients or steps
    by this name.
    """

    _names: dict[int, str] = {}  # noqa: RUF012 - replaced by each object

    @property
    def _parameter_names(self) -> dict[torch.Tensor, str]:
        """Return the name of each parameter, for programs that read this private attribute of
        Horovod's optimizers.
        """
        every = (parameter for group in self.param_groups for parameter in group["params"])
        return {
            parameter: self._names[id(parameter)]
            for parameter in every
            if id(parameter) in self._names
        }
