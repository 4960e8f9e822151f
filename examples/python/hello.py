"""Submit a job, follow its log, and say how it ended.

python examples/python/hello.py
"""

# ruff: noqa: T201 - an example says what it does

from aitne import Client

with Client() as aitne:  # the platform that the command line would find
    job = aitne.jobs.create({"name": "hello", "commands": ["echo hello", "sleep 1", "echo bye"]})
    for chunk in aitne.jobs.follow_logs(job.id):
        print(chunk.decode(), end="")
    ended = aitne.jobs.wait(job.id)
    print(f"{ended.name}: {ended.state}")
