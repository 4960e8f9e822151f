"""Entry point ``python -m aitne_train.launcher``, equivalent to ``aitne-run``."""

from __future__ import annotations

from aitne_train.launcher.main import run

if __name__ == "__main__":
    run()
