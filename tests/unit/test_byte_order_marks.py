"""A file that an editor on Windows wrote with a byte order mark means the same without it."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aitne.adapters.images import recipes
from aitne.bootstrap.topology_reader import read_part
from aitne.broker.config import load_config
from aitne.cli import job_file_reader
from aitne.client.working_tree_scan import read_working_tree
from aitne.core.errors import InvalidInput
from aitne.local_system import settings_report
from aitne.local_system.password_from_file import read_password
from aitne.local_system.settings_loader import load_settings
from aitne.operations.setup.answers import read_answers
from aitne.services.jobs.template_file import load_template
from aitne_devcluster.topology import from_file
from aitne_train.launcher import host_order, options
from aitne_train.launcher import main as launcher
from aitne_train.launcher.hosts import Host

TOPOLOGY = "SwitchName=a Nodes=n[0,2]\nSwitchName=b Nodes=n[1,3]\n"
SHOWN = (
    "SwitchName=a Level=0 LinkSpeed=1 Nodes=n[0,2]\nSwitchName=b Level=0 LinkSpeed=1 Nodes=n[1,3]\n"
    "SwitchName=c Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=a,b\n"
)
HOSTS = [Host(f"n{number}", 1) for number in range(4)]


@dataclass(frozen=True)
class Reader:
    """One reader of a file that people write."""

    name: str
    text: str
    read: Callable[[Path], Any]


def _settings(path: Path) -> Any:
    settings = load_settings(path.parent)
    views = {view.name: view.location for view in settings_report.describe_settings(settings)}
    return settings.title, views["title"]


def _broker(path: Path) -> Any:
    if os.geteuid() != 0:
        pytest.skip("only root writes what the broker reads")
    path.chmod(0o600)
    return load_config(path)


def _launched(path: Path) -> Any:
    return launcher._find_named_options(
        options.build_parser().parse_args(["--hostfile", str(path), "true"])
    )


READERS = (
    Reader(
        "job.yml",
        "name: a\ncommands: ['true']\n",
        lambda path: job_file_reader.read_job_file(str(path)),
    ),
    Reader("aitne.toml", 'title = "Ünder"\n', _settings),
    Reader("broker.toml", "peers = [1000]\n", _broker),
    Reader("answers.toml", 'scheduler = "local"\n', read_answers),
    Reader("answers.yaml", "scheduler: local\n", read_answers),
    Reader(
        "train.yaml",
        "name: train\nversion: 1.0.0\ntitle: Train\ntype: job\ncommands: ['true']\n",
        load_template,
    ),
    Reader(
        "image.yaml",
        "name: a\nversion: '1'\ndescription: Something.\n",
        lambda path: recipes.read_recipe(path.parent),
    ),
    Reader("topology.conf", TOPOLOGY, lambda path: read_part(path)),
    Reader("shown.txt", SHOWN, lambda path: read_part(path)),
    Reader(
        "gres.conf",
        "NodeName=n0 Name=gpu File=/dev/nvidia0 Cores=0-1\n",
        lambda path: read_part(path),
    ),
    Reader(
        "cluster.conf",
        TOPOLOGY,
        lambda path: from_file(path, [host.name for host in HOSTS]),
    ),
    Reader(
        "ordering.conf",
        TOPOLOGY,
        lambda path: host_order.order_hosts(HOSTS, "auto", {host_order.TOPOLOGY: str(path)}),
    ),
    Reader(
        "order", "n3\nn2\nn1\nn0\n", lambda path: host_order.order_hosts(HOSTS, f"file:{path}", {})
    ),
    Reader("hostfile", "n3 slots=2\nn1 slots=1\n", _launched),
    Reader(
        ".aitneignore",
        "ignored\n",
        lambda path: [
            file.path
            for file in read_working_tree(path.parent, max_files=9, max_bytes=999).tree.files
            if file.path != ".aitneignore"
        ],
    ),
    Reader("password", "Gehéim\n", read_password),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_file_with_a_byte_order_mark_means_the_same(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "ignored").touch()
    path = tmp_path / reader.name
    path.write_bytes(reader.text.encode())
    expected = reader.read(path)

    path.write_bytes(codecs.BOM_UTF8 + reader.text.encode())

    assert _comparable(reader.read(path)) == _comparable(expected)


def _comparable(value: Any) -> Any:
    return vars(value) if isinstance(value, job_file_reader.JobFileSource) else value


def test_password_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes("Geheim".encode("utf-16"))
    with pytest.raises(OSError, match=r"not text in UTF-8: .*password"):
        read_password(path)


def test_batch_script_with_a_byte_order_mark_is_refused_as_by_sbatch(tmp_path: Path) -> None:
    path = tmp_path / "run.sbatch"
    path.write_bytes(codecs.BOM_UTF8 + b"#!/bin/bash\n#SBATCH -N 2\nhostname\n")
    with pytest.raises(
        InvalidInput, match="line 1: sbatch refuses a script with a byte order mark"
    ):
        job_file_reader.read_job_file(str(path))
