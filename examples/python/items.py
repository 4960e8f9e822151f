"""A function for many items: an array job, and its results as they come.

python examples/python/items.py
"""

# ruff: noqa: T201 - an example says what it does

import aitne


def collatz(start: int) -> int:
    """Count the steps of a number until 1."""
    steps = 0
    while start != 1:
        start = start // 2 if start % 2 == 0 else 3 * start + 1
        steps += 1
    return steps


futures = aitne.map(
    collatz, range(20, 26), max_parallel=3, max_duration="5m", resources={"memory": "256M"}
)
for future in aitne.as_completed(futures):
    print(future, future.result())
print(futures.results())
