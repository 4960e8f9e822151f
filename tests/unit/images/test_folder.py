"""Reading ``image.yaml``: what an image takes from its bases, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from aitne.adapters.images import recipes
from aitne.core.errors import InvalidInput


def write(root: Path, name: str, text: str) -> Path:
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "image.yaml").write_text(text)
    return root / name


MINIMAL = "name: {0}\nversion: '1'\ndescription: Something.\n"


def test_an_image_takes_packages_variables_and_smoke_commands_from_its_base(tmp_path: Path) -> None:
    write(
        tmp_path,
        "low",
        MINIMAL.format("low") + "debian: [zsh, bash]\nenv: {A: low, B: low}\nsmoke: [low]\n",
    )
    high = write(
        tmp_path,
        "high",
        MINIMAL.format("high")
        + "base: low\ndebian: [git, bash]\npython: [numpy]\npython_prefix: /opt/x\n"
        + "env: {A: high}\nsmoke: [high]\n",
    )
    recipe = recipes.read_recipe(high)
    assert recipe.reference == "high:1"
    assert recipe.bases == ("low",)
    assert recipe.debian == ("bash", "git", "zsh")
    assert recipe.smoke == ("low", "high")
    assert recipe.env == {"PATH": f"/opt/x/bin:{recipes.STANDARD_PATH}", "A": "high", "B": "low"}


def test_a_folder_of_ones_own_extends_what_we_ship(tmp_path: Path) -> None:
    own = write(tmp_path, "own", MINIMAL.format("own") + "base: jupyter\npython: [rich]\n")
    recipe = recipes.read_recipe(own)
    assert recipe.bases == ("jupyter", "base")
    assert recipe.python[-1] == "rich"
    assert recipe.python_prefix == "/opt/jupyter"
    assert "jupyterhub==" in recipe.constraints


def test_the_image_with_jupyterlab_has_the_versions_of_the_sessions_without_an_image() -> None:
    from aitne.adapters.node_software_folder import SESSION_LOCK

    jupyter = recipes.read_recipe(recipes.find_recipe_folder("jupyter"))
    assert jupyter.constraints == SESSION_LOCK.read_text()
    apps = {name: app.python for name, app in jupyter.file.apps.items()}
    assert apps == dict.fromkeys(("lab", "tensorboard"), "/opt/jupyter/bin/python")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nversion: 1.0\n", "version"),
        ("- a list", "mapping"),
        ("name: [", "image.yaml:1"),
        (MINIMAL.format("x") + "colour: red\n", "colour"),
        (MINIMAL.format("x") + "debian: ['bash; reboot']\n", "debian.0"),
        (MINIMAL.format("x") + "debian: ['-o']\n", "debian.0"),
        (MINIMAL.format("x") + "python_prefix: /opt/x\npython: ['--index-url=x']\n", "python.0"),
        (MINIMAL.format("x") + "python: [numpy]\n", "python_prefix is missing"),
        (MINIMAL.format("x") + 'env: {A: "one\\n%post"}\n', "env.A"),
        (MINIMAL.format("x") + "env: {A: '{{ secret }}'}\n", "env.A"),
        (MINIMAL.format("x") + "base: nothing\n", "no image folder nothing"),
        (MINIMAL.format("x") + "base: x\n", "cycle"),
        (MINIMAL.format("x") + "apps: {lab: {kind: jupyterhub}}\n", "apps.lab"),
    ],
)
def test_a_wrong_file_is_refused_with_its_path_and_the_field(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        recipes.read_recipe(write(tmp_path, "x", text))
    assert said in caught.value.message
    assert str(tmp_path) in caught.value.message


@pytest.mark.parametrize("name", ["nothing", "base; reboot", "$(reboot)", "", "..\x00", "-x"])
def test_an_unknown_name_lists_those_there_are(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        recipes.find_recipe_folder(name)
    assert "base, jupyter" in (caught.value.problems[0].allowed or "")


def test_a_path_without_an_image_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no image\.yaml"):
        recipes.find_recipe_folder(str(tmp_path))
