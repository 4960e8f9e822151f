"""An environment wraps a program without becoming part of any script."""

from __future__ import annotations

import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from aitne.core.jobs.environment import PREAMBLE, wrap
from aitne.core.models.job_options import EnvironmentOptions

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


def test_without_an_environment_nothing_is_put_before() -> None:
    assert wrap(EnvironmentOptions(), ("a", "b c")) == ("a", "b c")


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
    found = wrap(environment, argv)
    assert found[-len(argv) :] == tuple(argv)
    if found != tuple(argv):
        assert found[:5] == ("bash", "--norc", "-c", PREAMBLE, "aitne-environment")


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=4), st.lists(st.just(":"), max_size=2))
def test_arguments_arrive_as_they_are(values: list[str], lines: list[str]) -> None:
    """Through the real bash."""
    argv = ("printf", "%s\\0", *values)
    wrapped = wrap(EnvironmentOptions(setup=("true", *lines)), argv)
    done = subprocess.run(wrapped, capture_output=True, check=True)
    assert done.stdout == "".join(f"{value}\0" for value in values).encode()
