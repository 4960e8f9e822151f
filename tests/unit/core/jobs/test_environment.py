"""An environment wraps a program without becoming part of any script."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.jobs.agent_protocol import EXIT_ENVIRONMENT
from aitne.core.jobs.environment_command import PREAMBLE, wrap_in_environment
from aitne.core.models.common_job_fields import EnvironmentOptions

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def test_without_an_environment_nothing_is_put_before() -> None:
    assert wrap_in_environment(EnvironmentOptions(), ("a", "b c")) == ("a", "b c")


@given(
    st.builds(
        EnvironmentOptions.model_construct,  # the script is safe even if a check is missing
        modules=st.lists(TEXT, max_size=3).map(tuple),
        conda=st.none() | TEXT,
        venv=st.none() | TEXT,
        setup=st.lists(TEXT, max_size=3).map(tuple),
    ),
    st.lists(TEXT, min_size=1, max_size=4),
)
def test_the_script_is_the_same_whatever_a_user_wrote(
    environment: EnvironmentOptions, argv: list[str]
) -> None:
    found = wrap_in_environment(environment, argv)
    assert found[-len(argv) :] == tuple(argv)
    if found != tuple(argv):
        assert found[:5] == ("bash", "--norc", "-c", PREAMBLE, "aitne-environment")


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(st.just(":"), max_size=2))
def test_arguments_arrive_as_they_are(values: list[str], lines: list[str]) -> None:
    """Through the real bash."""
    argv = ("printf", "%s\\0", *values)
    wrapped = wrap_in_environment(EnvironmentOptions(setup=("true", *lines)), argv)
    done = subprocess.run(wrapped, capture_output=True, check=True)
    assert done.stdout == "".join(f"{value}\0" for value in values).encode()


MODULES_5 = r"""() {
    case "$1 $2" in
        "--version "*) echo "Modules Release 5.2.0 (2022-11-08)" >&2 ;;
        "load openmpi/5.0") export LOADEDMODULES=gcc/12.3:openmpi/5.0 ;;
        "load gcc/12") ;;
        "-t avail") printf '%s\n' /apps: 'gcc/12.3 <L> <default:12>' 'gcc/13.1 (D)' 'no gcc here' >&2 ;;
        *) echo "ERROR: Unable to locate a modulefile for '$2'" >&2; return 1 ;;
    esac
}"""
# A job that a shell without Lmod's initialization has submitted lacks LMOD_VERSION.
LMOD = MODULES_5.replace(
    "Modules Release 5.2.0 (2022-11-08)", "Modules based on Lua: Version 8.7.14  2022-10-18 10:17"
)
MODULES_3 = r"""() {
    case "$1 $2" in
        "--version "*) echo "VERSION=3.2.10" >&2 ;;
        "load openmpi/5.0") export LOADEDMODULES=gcc/12.3:openmpi/5.0 ;;
        *) echo "ModuleCmd_Load.c(213):ERROR:105: Unable to locate '$2'" >&2 ;;
    esac
}"""


@pytest.mark.parametrize(
    ("function", "name", "code", "told"),
    [
        (MODULES_5, "gcc/12", 0, ""),
        (LMOD, "gcc/12", 0, ""),
        (LMOD, "gcc/99", EXIT_ENVIRONMENT, "Similar ones there: gcc/12.3 gcc/13.1."),
        (MODULES_5, "gcc/99", EXIT_ENVIRONMENT, "Similar ones there: gcc/12.3 gcc/13.1."),
        (MODULES_3, "gcc/12.3", 0, ""),
        (MODULES_3, "gcc/12", EXIT_ENVIRONMENT, "no module there has a similar name"),
    ],
)
def test_module_command_says_whether_a_module_is_loaded(
    function: str, name: str, code: int, told: str
) -> None:
    environment = EnvironmentOptions(modules=("openmpi/5.0", name))
    done = subprocess.run(
        wrap_in_environment(environment, ("sh", "-c", "echo $LOADEDMODULES")),
        env={"PATH": "/usr/bin:/bin", "BASH_FUNC_module%%": function},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert done.stdout == ("" if code else "gcc/12.3:openmpi/5.0\n")
