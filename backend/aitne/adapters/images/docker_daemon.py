"""Images in the store of a Docker (or Podman) daemon, built from the same layers with a Dockerfile."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aitne.adapters.images.apptainer_images import NOBODY
from aitne.adapters.images.build_definition import DOCKERFILE
from aitne.adapters.images.image_build_log import Work
from aitne.adapters.images.image_folder import SCRATCH
from aitne.adapters.images.layer_cache import Layers
from aitne.adapters.runtimes.docker import DEFAULT_URL
from aitne.core.errors import SetupError
from aitne.core.models.image import Artifact

DOCKER = "docker"
_TIMEOUT_S = 1_800
_PROBE_S = 5


class DockerDaemon:
    """Client of one Docker daemon (with the package ``docker``) that builds, tests and removes
    images.
    """

    def __init__(self, url: str | None, tmp: Path) -> None:
        self.url = url or DEFAULT_URL
        self._tmp = tmp

    def refusal(self) -> str | None:
        """Return why the Docker daemon cannot be used, as a sentence, or None if it answers."""
        if importlib.util.find_spec("docker") is None:
            return "The Python package docker is not installed here: pip install 'aitne[docker]'."
        import docker

        try:
            client = docker.APIClient(base_url=self.url, timeout=_PROBE_S)
            try:
                client.ping()
            finally:
                client.close()
        except (docker.errors.DockerException, OSError) as error:
            return (
                f"Docker does not answer at {self.url}: {error}. Start it, or set its address in "
                "[containers] docker_url."
            )
        return None

    def build(self, layers: Layers, text: str, reference: str, work: Work) -> Artifact:
        """Build an image from the layers with the Dockerfile ``text``.

        Raises:
            SetupError: the build failed; the message names the log.
        """
        import docker

        work.report_step("Passing the layers to Docker")
        what = "Making Docker's image"
        with (
            work.convert_errors(what),
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self._tmp) as folder,
        ):
            for name, layer in layers.folders():
                # The same layer gives the same archive, so that Docker's cache recognizes it.
                argv = ["tar", "--sort=name", "--numeric-owner", "-C", str(layer)]
                argv += ["-cf", str(Path(folder, f"{name}.tar")), "."]
                work.run(argv, what=what)
            Path(folder, DOCKERFILE).write_text(text)
            client = docker.APIClient(base_url=self.url, timeout=_TIMEOUT_S)
            try:
                tag = f"aitne/{reference.replace('+', '_')}"
                messages = client.build(path=folder, tag=tag, rm=True, forcerm=True, decode=True)
                self._log_messages(messages, what, work)
                image: dict[str, Any] = client.inspect_image(tag)
            except docker.errors.DockerException as error:
                raise work.failure(what, str(error)) from error
            finally:
                client.close()
        return Artifact(runtime=DOCKER, digest=image["Id"], size_bytes=image["Size"])

    def _log_messages(self, messages: Any, what: str, work: Work) -> None:
        for part in messages:
            if text := str(part.get("stream", "")).strip():
                work.log_line(text)
            if "error" in part:
                raise work.failure(what, str(part["error"]))

    def run_smoke_tests(
        self, digest: str, commands: Sequence[Sequence[str]], work: Work, *, env: Mapping[str, str]
    ) -> None:
        """Run the test commands in the image without a network or privileges; each must succeed.

        Raises:
            SetupError: a command failed; the message contains its output.
        """
        import docker

        client = docker.DockerClient(base_url=self.url, timeout=300)
        try:
            for number, command in enumerate(commands, 1):
                work.report_step(f"Testing Docker's image, {number} of {len(commands)}")
                self._run_smoke_test(client, digest, command, work, env)
        finally:
            client.close()

    def _run_smoke_test(
        self, client: Any, digest: str, command: Sequence[str], work: Work, env: Mapping[str, str]
    ) -> None:
        import docker

        what = f"Testing `{' '.join(command)}` in Docker's image"
        work.log_line(f"$ {' '.join(command)}")
        try:
            output = client.containers.run(
                digest,
                list(command),
                environment=dict(env),
                user=f"{NOBODY}:{NOBODY}",
                network_mode="none",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                remove=True,
                stderr=True,
                tmpfs={"/tmp": "mode=1777"},  # noqa: S108 - in the container
            )
            work.log_line(output.decode(errors="replace").strip())
        except docker.errors.ContainerError as error:
            text = (error.stderr or b"").decode(errors="replace").strip()
            work.log_line(text)
            last = text.splitlines()[-1:] or [f"it ended with status {error.exit_status}"]
            raise work.failure(what, last[0]) from error
        except docker.errors.DockerException as error:
            raise work.failure(what, str(error)) from error

    def remove_image(self, digest: str) -> None:
        """Remove an image from the daemon's store; do nothing if it is missing.

        Raises:
            SetupError: the daemon refused, or does not answer.
        """
        import docker

        try:
            client = docker.APIClient(base_url=self.url, timeout=60)
            try:
                client.remove_image(digest, force=True)
            finally:
                client.close()
        except docker.errors.ImageNotFound:
            return
        except docker.errors.DockerException as error:
            raise SetupError(f"Docker did not remove {digest}: {error}.") from error

    def has_image(self, digest: str) -> bool:
        """Return True if the daemon's store contains the image. Raises ``SetupError`` if the daemon
        does not answer.
        """
        import docker

        try:
            client = docker.APIClient(base_url=self.url, timeout=60)
            try:
                client.inspect_image(digest)
            finally:
                client.close()
        except docker.errors.ImageNotFound:
            return False
        except docker.errors.DockerException as error:
            raise SetupError(f"Docker does not answer at {self.url}: {error}.") from error
        return True
