"""``python -m aitne.launch``: the same as ``aitne-run``."""

from __future__ import annotations

from aitne.launch.main import run

if __name__ == "__main__":
    run()
