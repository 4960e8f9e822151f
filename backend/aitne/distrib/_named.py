"""What both distributed optimizers know of their parameters' names."""

from __future__ import annotations

import torch


class Named(torch.optim.Optimizer):
    """Has a name for each parameter, under which its gradient or its step travels."""

    _names: dict[int, str] = {}  # noqa: RUF012 - replaced by each object

    @property
    def _parameter_names(self) -> dict[torch.Tensor, str]:
        """Each parameter's name: Horovod's attribute, which programs look into though it is private."""
        every = (each for group in self.param_groups for each in group["params"])
        return {each: self._names[id(each)] for each in every if id(each) in self._names}
