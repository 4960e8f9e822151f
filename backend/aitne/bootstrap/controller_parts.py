"""Construction of the controller process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aitne.bootstrap.adapters import (
    make_accounting,
    make_channels,
    make_job_files,
    make_outside_jobs,
    make_runtimes,
    make_scheduler,
    make_store,
    utc_now,
)
from aitne.bootstrap.job_script_renderer import make_renderer
from aitne.bootstrap.topology_reader import read_part
from aitne.core.ports.scheduler import Scheduler
from aitne.core.settings import Settings
from aitne.services.cluster.cluster import ClusterService
from aitne.services.cluster.merged_topology import ClusterTopologies
from aitne.services.controller import Controller
from aitne.services.controller.notification_tasks import NotificationConfig
from aitne.services.controller.outside_job_watch import OutsideConfig
from aitne.services.controller.topology_source_reader import TopologyConfig
from aitne.services.platform.shared_secrets import read_secret
from aitne.store import Store


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """The controller, with the objects that are started before it and closed after it."""

    store: Store
    scheduler: Scheduler
    controller: Controller
    close_hub: Callable[[], Awaitable[None]]


def build_controller(settings: Settings, *, holder: str) -> ControllerParts:
    """Create the controller and the objects that only it needs. ``holder`` is the name under which
    this controller process holds the leader's lease.

    Raises:
        SetupError: a plug-in or a secret that the settings name does not exist.
    """
    # It imports httpx, which the API process does not need.
    from aitne.adapters.hub_client import HubClient
    from aitne.adapters.syslog import SyslogReceiver

    store = make_store(settings)
    scheduler = make_scheduler(settings)
    hub = HubClient(
        f"http://127.0.0.1:{settings.port_of_hub}", read_secret(settings, "hub_api_token")
    )
    cluster = ClusterService(store, scheduler, settings, utc_now)
    topologies = ClusterTopologies(store, cluster, settings.topology)
    controller = Controller(
        store,
        scheduler,
        make_job_files(settings),
        hub,
        make_renderer(settings, make_runtimes(settings)),
        utc_now,
        holder=holder,
        sessions_url=settings.sessions_base,
        poll_interval_s=settings.poll_interval_s,
        accounting=make_accounting(settings),
        retention=settings.retention,
        topology=TopologyConfig(settings.topology, read_part, topologies.format_topology_conf),
        outside=OutsideConfig(make_outside_jobs(settings), settings.cluster, settings.accounts.map),
        notifications=NotificationConfig(
            make_channels(settings),
            settings.portal_url,
            settings.idle,
            None if settings.audit.syslog is None else SyslogReceiver(settings.audit.syslog),
        ),
    )
    return ControllerParts(store, scheduler, controller, hub.close)
