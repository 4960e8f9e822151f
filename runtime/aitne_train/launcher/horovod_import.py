"""``aitne-run --horovod``: ``import horovod.torch`` in the ranks' programs is ``aitne_train``."""

from __future__ import annotations

import os

from aitne_train.launcher import platform_software_paths
from aitne_train.launcher.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Mapping

VARIABLE = "AITNE_HOROVOD"
"""Variable that is set if ``import horovod.torch`` is ``aitne_train``. For ranks its value is a
folder with the package ``aitne_train``."""
_PATH = "horovod_path"


def check_transport(environ: Mapping[str, str]) -> None:
    """Raise ``LaunchError`` if the environment also requests the transport of the real Horovod."""
    if VARIABLE in environ and environ.get("AITNE_TRANSPORT") == "horovod":
        raise LaunchError(
            "--horovod makes `import horovod.torch` a name of aitne_train, and the transport horovod is Horovod itself: "
            "omit --horovod, or choose another transport (--transport, AITNE_TRANSPORT)"
        )


def build_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with which a program on this node imports ``aitne_train`` as
    ``horovod.torch``; none if ``environ`` does not request it."""
    if VARIABLE not in environ:
        return {}
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), _PATH)
    others = [each for each in environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    path = [own, *(each for each in others if os.path.basename(each) != _PATH)]
    return {"PYTHONPATH": os.pathsep.join(path), VARIABLE: _find_package_folder()}


def _find_package_folder() -> str:
    """Return the folder with the package ``aitne_train`` and all of its API: the one of
    this module, or beside this archive the one for notebooks."""
    above = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if not platform_software_paths.NOTEBOOK:
        return above
    return os.path.join(os.path.dirname(os.path.dirname(above)), platform_software_paths.NOTEBOOK)
