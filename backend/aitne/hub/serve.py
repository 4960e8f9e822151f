"""JupyterHub, started with less: ``<hub env>/bin/python serve.py -f jupyterhub_config.py``.

jsonschema takes ``rfc3987_syntax`` as an optional checker of one string format. It builds a grammar
while it is imported, which is more than half of the Hub's own start and 18 MB for good.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # how Python spells "is not there"

from jupyterhub.app import main  # noqa: E402

if __name__ == "__main__":
    main()
