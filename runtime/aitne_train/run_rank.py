"""Program that each rank started by ``run_function.run`` executes: it calls the function and stores
the result.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from aitne_train.run_function import FUNCTION, dump_value, locate_result_file


def main(folder: str) -> None:
    """Read the pickled function from ``folder``, call it, and store the result of this rank in the
    folder.
    """
    path, data = pickle.loads(Path(folder, FUNCTION).read_bytes())  # noqa: S301 - a private folder
    sys.path += [entry for entry in path if entry not in sys.path]
    func, args, kwargs = pickle.loads(data)  # noqa: S301 - likewise
    result = dump_value(func(*args, **kwargs))
    locate_result_file(folder, int(os.environ["RANK"])).write_bytes(result)


if __name__ == "__main__":
    main(sys.argv[1])
