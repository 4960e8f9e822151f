"""Print which tests a change calls for, or record that all tests have passed.

select_tests.py list [PATH …]   the test files that changes of these paths call for, by default
                                those of all changes since the last full run
select_tests.py record          write HEAD to .ci/last-full after `make test-all`
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import test_times

ROOT = Path(__file__).resolve().parents[1]


def list_tests(paths: list[str]) -> int:
    """Print the test files that CI runs for a change of these paths beside a third of the others."""
    from tests.plugins import selection

    lists = selection.read_selection()
    changed = paths or selection.changed_files()
    called = None if changed is None else selection.called_tests(lists, changed)
    for file in selection.files_of(lists, called):
        print(file)
    return 0


def record_full_run() -> int:
    """Write the tested commit to `.ci/last-full`; return 1 if it was changed or tests were skipped.

    The real Horovod may lack: its answers are recorded.
    """
    from tests.plugins import selection

    tested = (ROOT / "test-results/commit").read_text()
    lacks = {test.lacks for test in test_times.last_records().values()} - {"", "horovod"}
    if not tested or tested != test_times.clean_commit():
        print(f"{selection.LAST_FULL} is not written: the tree has changes.", file=sys.stderr)
        return 1
    if lacks:
        names = ", ".join(sorted(lacks))
        print(f"{selection.LAST_FULL} is not written: tests lack {names}.", file=sys.stderr)
        return 1
    (ROOT / selection.LAST_FULL).write_text(f"{tested}\n")
    print(f"{selection.LAST_FULL} names {tested}; commit it.", file=sys.stderr)
    return 0


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="print the test files that a change calls for")
    listing.add_argument("path", nargs="*")
    verbs.add_parser("record", help="record that all tests passed on this commit")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    return list_tests(options.path) if options.verb == "list" else record_full_run()


if __name__ == "__main__":
    sys.exit(main())
