"""The definition and the Dockerfile: whatever an image says, each line is the one that was meant."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.adapters.images import build_definition, recipes
from aitne.adapters.images.recipes import Recipe
from aitne.core.models.image import ImageFile

ROOT = Path(__file__).parents[3]
VALUES = st.text(
    st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=["Cs"]),
    max_size=60,
).filter(lambda text: "{{" not in text)


def recipe(env: dict[str, str], prefix: str | None = None) -> Recipe:
    file = ImageFile(name="x", version="1+a", description="Something.", env=env)
    return Recipe(file, (), ("bash",), ("numpy",) if prefix else (), prefix, env, ())


@given(st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), VALUES, max_size=4))
def test_the_shell_reads_back_every_variable_as_it_was_given(env: dict[str, str]) -> None:
    lines = build_definition.make_apptainer_definition(recipe(env)).split("\n")
    begin = lines.index("%environment") + 1 if env else 0
    exports = lines[begin : begin + len(env)]
    read = [shlex.split(line) for line in exports]
    assert read == [["export", f"{name}={value}"] for name, value in env.items()]


@given(st.dictionaries(st.from_regex(r"[A-Z]{1,8}", fullmatch=True), VALUES, max_size=4))
def test_no_variable_adds_an_instruction_to_either_file(env: dict[str, str]) -> None:
    sections = [
        line
        for line in build_definition.make_apptainer_definition(recipe(env)).split("\n")
        if line[:1] == "%"
    ]
    assert sections == (["%environment"] if env else []) + ["%labels", "%runscript"]
    text = build_definition.make_dockerfile(recipe(env, "/opt/x"))
    words = [line.split(" ")[0] for line in text.split("\n") if line and line[0] != "#"]
    assert words == ["FROM", "ADD", "ADD", *["ENV"] * len(env), "LABEL", "CMD"]


@given(VALUES)
def test_docker_fills_nothing_into_a_variable(value: str) -> None:
    line = next(
        line
        for line in build_definition.make_dockerfile(recipe({"A": value})).split("\n")
        if line[:4] == "ENV "
    )
    quoted = line.removeprefix("ENV A=")
    assert re.sub(r"\\([\\\"$])", r"\1", quoted[1:-1]) == value
    assert not re.search(r'(?<!\\)(?:\\\\)*[$"]', quoted[1:-1])


@pytest.mark.parametrize("name", recipes.list_recipe_names(recipes.builtin_folder()))
def test_both_files_name_every_package_of_the_list_and_neither_installs_one(name: str) -> None:
    found = recipes.read_recipe(recipes.find_recipe_folder(name))
    for text in (
        build_definition.make_apptainer_definition(found),
        build_definition.make_dockerfile(found),
    ):
        said = re.sub(r"\n# ", " ", text)
        head, _, instructions = said.partition("\n\n")
        assert set(found.debian) | set(found.python) <= set(re.split(r"[\s:.]*\s|\.\n?$", head))
        assert not re.search(r"apt|pip|https?:|docker://", instructions)


def test_committed_definitions_match_package_lists() -> None:
    for name in recipes.list_recipe_names(recipes.builtin_folder()):
        found = recipes.read_recipe(recipes.find_recipe_folder(name))
        committed = ROOT / "containers" / name
        assert (
            committed / "apptainer.def"
        ).read_text() == build_definition.make_apptainer_definition(found)
        assert (committed / "Dockerfile").read_text() == build_definition.make_dockerfile(found)


def test_the_command_line_can_tell_what_it_ships_without_heavy_imports() -> None:
    code = "import sys, aitne.cli.commands.admin.image as i, json; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"docker", "yaml", "pydantic"} & set(json.loads(said.stdout))
