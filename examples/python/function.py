"""A function that runs in a job, and its result.

python examples/python/function.py
"""

# ruff: noqa: T201 - an example says what it does

import platform
import random

import aitne


def estimate_pi(samples: int) -> tuple[str, float]:
    """Estimate pi with random points, and say where."""
    inside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(samples))  # noqa: S311
    print("job", aitne.job().id)
    return platform.node(), 4 * inside / samples


future = aitne.submit(estimate_pi, 100_000, max_duration="5m", resources={"memory": "256M"})
print(future)
node, pi = future.result()
print(f"{pi:.2f} from {node}")
