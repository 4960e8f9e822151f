"""Several jobs at once, each followed to its end, in a program with an event loop.

python examples/python/many.py
"""

# ruff: noqa: T201 - an example says what it does

import asyncio

from aitne import AsyncClient


async def run(aitne: AsyncClient, seed: int) -> str:
    """Submit one job and wait for it."""
    wish = {"name": f"seed-{seed}", "commands": ["echo $SEED"], "env": {"SEED": str(seed)}}
    job = await aitne.jobs.create(wish)
    ended = await aitne.jobs.wait(job.id)
    return f"{ended.name}: {ended.state}"


async def main() -> None:
    """All of them side by side."""
    async with AsyncClient() as aitne:
        for line in await asyncio.gather(*(run(aitne, seed) for seed in range(3))):
            print(line)


asyncio.run(main())
