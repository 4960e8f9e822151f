"""Installation of Apptainer where it is missing: ``make apptainer``."""

from __future__ import annotations

import sys

from aitne.core.errors import SetupError
from aitne_apptainer.installation import ensure_apptainer


def print_progress(text: str) -> None:
    """Print one line of progress."""
    print(text, flush=True)


def main() -> int:
    """Return the exit status."""
    try:
        ensure_apptainer(print_progress)
    except SetupError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
