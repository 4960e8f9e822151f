"""Write all generated files, or with ``--check`` name those that are out of date.

The OpenAPI document, the portal's types made from it, the references of the configuration, of the
job file and of the metrics, the client's records, the asynchronous client, the command line's table,
the versions of the image with JupyterLab, which are those of sessions without one, each image's
Apptainer definition and Dockerfile, the examples of `aitne admin setup`, and the playbook's units.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gen_client_records

from aitne.adapters.images import build_definition, recipes
from aitne.adapters.node_software_folder import SESSION_LOCK
from aitne.operations.setup import answers, rendering

ROOT = Path(__file__).resolve().parent.parent
OPENAPI = ROOT / "frontend" / "openapi.json"


def _run_python(*arguments: str) -> bytes:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout


def _make_openapi() -> bytes:
    return _run_python("-m", "aitne.api.openapi")


def _portal_types() -> bytes:
    script = "frontend/node_modules/openapi-typescript/bin/cli.js"
    return _run_python("scripts/node.py", script, str(OPENAPI), "--exclude-deprecated")


def _make_settings_reference() -> bytes:
    return _run_python("scripts/gen_settings.py")


def _setup_answers() -> bytes:
    return _run_python("scripts/gen_settings.py", "answers")


def _job_file() -> bytes:
    return _run_python("scripts/gen_job_file.py")


def _make_metrics_reference() -> bytes:
    return _run_python("scripts/gen_metrics.py")


def _client_records() -> dict[Path, Callable[[], bytes]]:
    """Return the modules of records of the client, which follow the OpenAPI document."""
    return {
        ROOT / "backend" / "aitne" / "client" / f"{module}.py": lambda module=module: _run_python(
            "scripts/gen_client_records.py", module
        )
        for module in gen_client_records.MODULES
    }


def _make_command_table() -> bytes:
    return _run_python("scripts/gen_commands.py")


def _async_client() -> bytes:
    return _run_python("scripts/gen_async_client.py")


def _list_image_generators() -> dict[Path, Callable[[], bytes]]:
    """Return the generators of both files of each image, from the folders of ``containers``."""
    renderers = (
        (build_definition.DEFINITION, build_definition.make_apptainer_definition),
        (build_definition.DOCKERFILE, build_definition.make_dockerfile),
    )
    folders = [path.parent for path in sorted((ROOT / "containers").glob(f"*/{recipes.FILE}"))]
    return {
        path / name: lambda path=path, render=render: render(recipes.read_recipe(path)).encode()
        for path in folders
        for name, render in renderers
    }


def _setup_examples() -> dict[Path, Callable[[], bytes]]:
    """Return the generators of the files of `aitne admin setup` for ``docs/examples/setup``."""
    examples = ROOT / "docs" / "examples"
    generated: dict[Path, Callable[[], bytes]] = {}
    for source in sorted((examples / "setup").glob("*.toml")):
        given = answers.validate_answers(answers.read_answers(source))
        for file in rendering.render_files(given):
            proxy = file.path in rendering.PROXY_FILES.values()
            name = "Caddyfile" if "Caddyfile" in file.path else "nginx.conf"
            path = examples / "reverse-proxy" / name if proxy else None
            path = path or examples / "setup" / source.stem / Path(file.path).name
            if file.path != rendering.ANSWERS:
                generated[path] = file.text.encode
    return generated


GENERATED: dict[Path, Callable[[], bytes]] = {
    OPENAPI: _make_openapi,
    ROOT / "frontend" / "src" / "api" / "schema.d.ts": _portal_types,
    ROOT / "docs" / "reference" / "configuration.md": _make_settings_reference,
    ROOT / "docs" / "reference" / "setup-answers.md": _setup_answers,
    ROOT / "docs" / "reference" / "job-file.md": _job_file,
    ROOT / "docs" / "reference" / "metrics.md": _make_metrics_reference,
    **_client_records(),
    ROOT / "backend" / "aitne" / "client" / "aio.py": _async_client,
    ROOT / "backend" / "aitne" / "cli" / "command_table.py": _make_command_table,
    ROOT / "containers" / "jupyter" / recipes.CONSTRAINTS: SESSION_LOCK.read_bytes,
    **_list_image_generators(),
    **_setup_examples(),
}


def main() -> int:
    """Generate, or compare; the exit status says whether something was out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    check = parser.parse_args().check
    stale = []
    for path, make in GENERATED.items():
        made = make()
        if path.is_file() and path.read_bytes() == made:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made)
    for name in stale:
        print(f"{name} is out of date: run `make gen`." if check else f"{name} was written.")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
