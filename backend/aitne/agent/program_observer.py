"""Observation of a job while its programs run: resource usage, environment, metrics and written
files."""

from __future__ import annotations

import os
import threading
import time

from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from aitne.agent.collective_profile_reports import ProfileWatch
    from aitne.agent.program_metrics import MetricsWatch
    from aitne.agent.software_snapshot import SnapshotTaker

_CLOCKS_S = 2.0
"""Maximum number of seconds by which the clock of a file server whose time cannot be asked may be
behind the node's clock."""
_SNAPSHOT_S = 1.0
"""Maximum number of seconds for which an ended job waits for its snapshot."""
_LEFT_S = 3.0
"""Maximum number of seconds for which an ended job waits for the list of files it wrote, because a
file server may not answer."""


class Observer:
    """Observer of the job's programs. It reports their start and end to the platform, and starts
    all measurements."""

    def __init__(self, spec: Spec, reporter: Reporter, programs: Programs) -> None:
        self._spec = spec
        self._reporter = reporter
        self._programs = programs
        self._begun = False
        self._workdir = os.getcwd()  # a program may remove it
        self._began_at = self._read_start_time()
        self._profile: ProfileWatch | None = None
        self._metrics: MetricsWatch | None = None
        self._snapshot: SnapshotTaker | None = None

    def report_start(self) -> None:
        """Report that the job has started, and start measuring. Further calls have no effect."""
        if not self._begun:
            self._begun = True
            self._reporter.queue_phase("started")
            self._reporter.start()
            self.start_observing()

    def start_observing(self) -> None:
        """Start the threads that observe the programs: resource use on every node, and
        activity on the other nodes of a session; profile and metrics only on the first node. Without a platform to report to, do nothing."""
        if self._spec.platform_url:
            from aitne.agent.sampler import Sampler  # its imports can wait until the program runs

            launcher = self._programs.launcher
            pids_file = None if launcher is None else launcher.pids_file
            Sampler(self._spec, self._reporter, pids_file).start()
            self._reporter.set_node_describer(self._describe_node)
            if self._spec.ranks is not None and not self._spec.node_rank:
                from aitne.agent.collective_profile_reports import ProfileWatch

                self._profile = ProfileWatch(self._spec, self._reporter)
                self._profile.start()
            if not self._spec.node_rank:
                self._start_first_node_watches()
            elif self._spec.inactivity_s is not None:
                # Work on any node of a session is activity.
                from aitne.agent.activity import ActivityWatch

                meter = Sampler(self._spec, self._reporter, pids_file)
                active = self._reporter.queue_activity
                ActivityWatch(meter, active, self._spec.inactivity_s, None).start()

    def _describe_node(self, boot_id: str) -> None:
        from aitne.agent import node_description

        node_description.start_describing(self._spec, self._programs, self._reporter, boot_id)

    def _start_first_node_watches(self) -> None:
        from aitne.agent.program_metrics import MetricsWatch
        from aitne.agent.software_snapshot import SnapshotTaker

        spec = self._spec
        self._snapshot = SnapshotTaker(spec, self._programs, self._reporter, self._workdir)
        self._snapshot.start()
        if not spec.apps:
            # The tasks of an array share their folder, so its files belong to no single task.
            workdir = self._workdir if spec.task is None else None
            self._metrics = MetricsWatch(
                self._reporter, spec.metrics_folder, workdir, self._began_at
            )
            self._metrics.start()

    def report_last_profile(self) -> None:
        """Report the latest profile of the ranks, after a program has ended."""
        if self._profile is not None:
            self._profile.report_if_changed()

    def report_end(self) -> None:
        """Report the last metrics, the written files and the snapshot after all programs have
        ended. The job waits for this, at most a few seconds.
        """
        if self._snapshot is None:
            return
        looking = threading.Thread(target=self._report_written_files, name="left", daemon=True)
        looking.start()
        looking.join(_LEFT_S)
        self._snapshot.wait(_SNAPSHOT_S)

    def _report_written_files(self) -> None:
        from aitne.agent import changed_files

        if self._metrics is not None:
            self._metrics.report_remaining()
        self._reporter.queue_document(
            "files", changed_files.list_written_files(self._workdir, self._began_at)
        )

    def _read_start_time(self) -> float:
        """Return the time before which the files of the job's folder were changed by others: the
        program has not started yet."""
        spec = self._spec
        if not spec.platform_url or spec.node_rank:
            return time.time()  # nothing is reported
        from aitne.agent import changed_files

        return changed_files.read_folder_time(self._workdir) or time.time() - _CLOCKS_S
