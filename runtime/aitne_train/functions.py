"""Broadcast of objects, parameters and optimizer states to all ranks."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from aitne_train.abandoned_collectives import mark_collective
from aitne_train.collectives import allgather, broadcast_, broadcast_async_, synchronize
from aitne_train.context import require_context
from aitne_train.errors import HorovodInternalError
from aitne_train.process_sets import ProcessSet, global_process_set

_CODE_BYTES = hashlib.sha256().digest_size


@mark_collective("broadcast_parameters")
def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Broadcast the parameter values of rank ``root_rank`` to all ranks.

    Args:
        params: a ``state_dict()``, or the result of ``named_parameters()`` or ``parameters()``.
            Values of a ``state_dict()`` that are not tensors are unchanged.
        root_rank: rank whose values are sent.

    Raises:
        ValueError: ``params`` is something else.
        HorovodInternalError: the parameters of the ranks differ in shape.
    """
    if isinstance(params, Mapping):
        pairs: list[tuple[str | None, Any]] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (torch.Tensor, str)):
        pairs = [item if isinstance(item, tuple) else (None, item) for item in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    handles = [
        broadcast_async_(tensor, root_rank, name)
        for name, tensor in pairs
        if isinstance(tensor, torch.Tensor)
    ]
    for handle in handles:
        synchronize(handle)


@mark_collective("broadcast_object")
def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the object of rank ``root_rank`` on every rank.

    Args:
        obj: object to send, which must support pickle; ignored on ranks other than ``root_rank``.
        root_rank: rank whose object is sent, counted among all ranks.
        name: name by which the calls of the ranks are matched; None: by the order of calls.
        process_set: ranks that take part.

    Raises:
        HorovodInternalError: the received data does not come from a rank of this run.
    """
    at_root = require_context().world.rank == root_rank
    names = (None, None) if name is None else (f"{name}.sz", f"{name}.t")
    data = _pickle_sealed(obj) if at_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([data.numel()])
    broadcast_(length, root_rank, names[0], process_set)
    if not at_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, names[1], process_set)
    return obj if at_root else _unpickle_sealed(data)


@mark_collective("allgather_object")
def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the objects of all ranks, in the order of the ranks.

    Args:
        obj: object of this rank, which must support pickle.
        name: name by which the calls of the ranks are matched; None: by the order of calls.

    Raises:
        HorovodInternalError: the received data does not come from a rank of this run.
    """
    names = (None, None) if name is None else (f"{name}.sz", f"{name}.t")
    data = _pickle_sealed(obj)
    lengths = allgather(torch.tensor([data.numel()]), names[0]).tolist()
    every = allgather(data, names[1])
    ends = accumulate(lengths)
    return [
        _unpickle_sealed(every[end - length : end])
        for end, length in zip(ends, lengths, strict=True)
    ]


@mark_collective("broadcast_optimizer_state")
def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Broadcast options and state of the optimizer on rank ``root_rank`` to all ranks.

    An optimizer that has no state yet, or a state of another structure, gets that of ``root_rank``
    too. If this rank's optimizer has no state, parameters without a gradient get a gradient of
    zeros, as in Horovod; no step is made.

    Args:
        optimizer: any optimizer except LBFGS; may be a ``DistributedOptimizer``.
        root_rank: rank whose optimizer state is sent.
        model: model in which parameters of sparse embeddings are found, whose zero gradients must
            be sparse; optional.

    Raises:
        ValueError: the optimizer is LBFGS.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if not optimizer.state:
        _zero_gradients(optimizer, parameters, model)
    at_root = require_context().world.rank == root_rank
    sent: list[torch.Tensor] = []
    plan: Any = None
    if at_root:
        plan = _replace_tensors(
            _list_content(optimizer, parameters), lambda tensor: _describe_tensor(tensor, sent)
        )
    plan = broadcast_object(plan, root_rank)
    if not at_root:
        options, states = plan
        _adopt_options(optimizer, options, sent)
        _adopt_states(optimizer, parameters, states, sent)
    for handle in [broadcast_async_(tensor, root_rank) for tensor in sent]:
        synchronize(handle)


@dataclass(frozen=True)
class _Described:
    """Placeholder that stands for a tensor in a state to be sent: its shape and dtype, without its
    values.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    on_cpu: bool

    def allocate(self, device: torch.device) -> torch.Tensor:
        """Return an uninitialized tensor with this shape and dtype, on the CPU or on ``device``."""
        return torch.empty(self.shape, dtype=self.dtype, device="cpu" if self.on_cpu else device)

    def fits(self, tensor: Any) -> bool:
        """Return whether ``tensor`` has the described shape, dtype and device type."""
        return (
            isinstance(tensor, torch.Tensor)
            and (tuple(tensor.shape), tensor.dtype) == (self.shape, self.dtype)
            and (tensor.device.type == "cpu") == self.on_cpu
        )


def _list_content(
    optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]
) -> tuple[list[dict[str, Any]], dict[Any, dict[Any, Any]]]:
    """Return the options of each parameter group, and the state of each parameter by its number."""
    options = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    states = {
        number: dict(optimizer.state[parameter])
        for number, parameter in enumerate(parameters)
        if parameter in optimizer.state
    }
    return options, states


def _describe_tensor(tensor: torch.Tensor, sent: list[torch.Tensor]) -> _Described:
    sent.append(tensor)
    return _Described(tuple(tensor.shape), tensor.dtype, tensor.device.type == "cpu")


def _adopt_options(
    optimizer: torch.optim.Optimizer, options: list[dict[str, Any]], sent: list[torch.Tensor]
) -> None:
    for group, group_options in zip(optimizer.param_groups, options, strict=True):
        device = group["params"][0].device if group["params"] else torch.device("cpu")
        for key, value in group_options.items():
            group[key] = _allocate_for(value, group.get(key), device, sent)


def _adopt_states(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.Tensor],
    states: dict[int, dict[Any, Any]],
    sent: list[torch.Tensor],
) -> None:
    """Set the states of the parameters to the root rank's states. Tensors to receive are allocated
    and appended to ``sent``; their values follow by broadcast.
    """
    for number, parameter in enumerate(parameters):
        if number not in states:
            optimizer.state.pop(parameter, None)
            continue
        state = optimizer.state[parameter]
        adopted = {
            key: _allocate_for(value, state.get(key), parameter.device, sent)
            for key, value in states[number].items()
        }
        state.clear()
        state.update(adopted)


def _allocate_for(value: Any, existing: Any, device: torch.device, sent: list[torch.Tensor]) -> Any:
    """Return a copy of ``value`` in which placeholders are replaced by tensors to receive into:
    this rank's existing ones if they fit, otherwise new ones. The tensors are appended to ``sent``.
    """

    def allocate(described: _Described) -> torch.Tensor:
        tensor = existing if described.fits(existing) else described.allocate(device)
        sent.append(tensor)
        return tensor

    return _replace_tensors(value, allocate)


def _replace_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of nested lists, tuples and dicts in which ``change`` has replaced each tensor
    and each placeholder for a tensor.
    """
    if isinstance(value, (torch.Tensor, _Described)):
        return change(value)
    if type(value) is dict:
        return {key: _replace_tensors(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replace_tensors(item, change) for item in value)
    return value


def _zero_gradients(
    optimizer: torch.optim.Optimizer,
    parameters: list[torch.Tensor],
    model: torch.nn.Module | None,
) -> None:
    embeddings = {
        id(module.weight)
        for module in (model.modules() if model is not None else ())
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse
    }
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            zeros = torch.zeros_like(parameter)
            sparse = isinstance(optimizer, torch.optim.SparseAdam) or id(parameter) in embeddings
            parameter.grad = zeros.to_sparse() if sparse else zeros


def _pickle_sealed(obj: Any) -> torch.Tensor:
    """Return a tensor of bytes: an authentication code computed with the run's secret, and the
    pickled object.
    """
    data = pickle.dumps(obj)
    return torch.frombuffer(bytearray(_compute_code(data) + data), dtype=torch.uint8)


def _unpickle_sealed(sealed: torch.Tensor) -> Any:
    """Verify the authentication code of received data and return the unpickled object.

    Unpickling executes code, and transports do not authenticate senders. So data without a code
    computed with the run's secret is not unpickled.

    Raises:
        HorovodInternalError: the authentication code is wrong.
    """
    received = sealed.numpy().tobytes()
    code, data = received[:_CODE_BYTES], received[_CODE_BYTES:]
    if not hmac.compare_digest(code, _compute_code(data)):
        raise HorovodInternalError("An object was received that no rank of this run has sent.")
    return pickle.loads(data)  # noqa: S301


def _compute_code(data: bytes) -> bytes:
    return hmac.digest(require_context().secret, b"object" + data, hashlib.sha256)
