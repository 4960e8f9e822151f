"""Start of JupyterHub with fewer imports.

Run as ``<hub env>/bin/python serve.py -f jupyterhub_config.py``. jsonschema takes
``rfc3987_syntax`` as an optional checker of one string format. That module builds a grammar on
import, which takes more than half of the hub's own start time and 18 MB permanently.
"""

from __future__ import annotations

import sys

sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # marks the module as missing

from jupyterhub.app import main  # noqa: E402

if __name__ == "__main__":
    main()
