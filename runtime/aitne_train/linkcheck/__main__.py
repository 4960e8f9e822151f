"""Command ``aitne-train linkcheck``: measure the links between the ranks and exit."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from aitne_train import context, lifecycle
from aitne_train.linkcheck import check_links, format_report


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the links and print the report on rank 0; return 1 if a link is slow, otherwise 0."""
    argparse.ArgumentParser(
        prog="aitne-train linkcheck",
        description="Measure the links between the ranks: aitne-run -np 4 aitne-train linkcheck.",
    ).parse_args(argv)
    os.environ["AITNE_LINK_CHECK"] = "0"
    lifecycle.init()
    here = context.require_context()
    if here.world.size == 1:
        sys.stderr.write("aitne: one rank has no links: start several, as with aitne-run -np 4\n")
        return 1
    report = check_links(here)
    if here.world.rank == 0:
        sys.stdout.write(format_report(report, here.nodes) + "\n")
        sys.stdout.flush()
    lifecycle.shutdown()
    return 1 if report.slow else 0


if __name__ == "__main__":
    sys.exit(main())
