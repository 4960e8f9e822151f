"""A script as people write it for Horovod, which names nothing of the platform: the tests' program."""

# ruff: noqa: T201 - what it prints is the job's log

import horovod.torch as hvd
import torch
from horovod.torch.elastic import TorchState

hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.none
)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
state = TorchState(model, optimizer, batch=0)
for _ in range(20):
    batch = torch.randn(32, 8)
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
state.commit()
ranks = hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum, name="ranks")
weights = hvd.allgather(model.weight.detach())
if hvd.rank() == 0:
    print(f"sum of {hvd.size()} ranks: {ranks.item()}")
    print(f"equal weights: {bool((weights == weights[0]).all())}")
