"""Entry point ``python -m aitne.launch``, equivalent to ``aitne-run``."""

from __future__ import annotations

from aitne.launch.main import run

if __name__ == "__main__":
    run()
