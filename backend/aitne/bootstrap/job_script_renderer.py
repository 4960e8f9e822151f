"""Creation of the renderer of jobs' scripts, with the software that is available on the nodes."""

from __future__ import annotations

from collections.abc import Mapping

from aitne.adapters.node_software_folder import SoftwareFolder, own_software, write_own_software
from aitne.core.ports.runtime import Runtime
from aitne.core.settings import Settings
from aitne.services.jobs.job_renderer import Renderer
from aitne.services.platform.certificate_authorities import open_authority


def make_renderer(settings: Settings, runtimes: Mapping[str, Runtime]) -> Renderer:
    """Create the renderer of jobs' scripts for the nodes of this site.

    If jobs run under the platform's own account on this machine, the paths of its software are
    determined now.
    """
    authority = open_authority(settings).pem if settings.tls.enabled else None
    if not settings.capabilities.trusts_agents:
        return Renderer(settings, runtimes, SoftwareFolder(settings).software(), authority)
    write_own_software()
    return Renderer(settings, runtimes, own_software(), authority)
