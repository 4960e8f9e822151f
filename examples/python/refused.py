"""What is wrong with a job file, before anything is stored.

python examples/python/refused.py
"""

# ruff: noqa: T201 - an example says what it does

from aitne import Client
from aitne.core.errors import InvalidInput

with Client() as aitne:
    try:
        aitne.jobs.plan({"name": "too much", "resources": {"cpus": 1_000}, "commands": ["true"]})
    except InvalidInput as error:
        for problem in error.problems:
            print(f"{problem.field}: {problem.message}")
