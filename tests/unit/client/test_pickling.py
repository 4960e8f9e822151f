"""Values that cannot travel to a job are named by the place where they are."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitne.client import pickling
from aitne.client.pickling import NotPicklableError

LOCK = threading.Lock()
Wrap = Callable[[Any], Any]


class Loader:
    """An object that keeps a value."""

    def __init__(self, value: object) -> None:
        self.value = value


class Hidden(Loader):
    """An object that pickle stores without its value."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


WRAPS: list[Wrap] = [
    lambda value: [1, value],
    lambda value: (value, "x"),
    lambda value: {"a": 1, "loader": value},
    lambda value: {7: value},
    Loader,
]


@given(st.lists(st.sampled_from(WRAPS), max_size=6))
def test_part_that_cannot_be_pickled_is_named_with_its_path(wraps: list[Wrap]) -> None:
    value: object = LOCK
    for wrap in wraps:
        value = wrap(value)
    with pytest.raises(NotPicklableError, match=r"cannot pickle '_thread\.lock' object") as caught:
        pickling.dumps(value, "args")
    assert eval(caught.value.path, {"args": value}) is LOCK


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_values_are_the_same_afterwards(value: object) -> None:
    assert pickling.loads(pickling.dumps(value, "value")) == value


def test_variables_of_a_function_are_named() -> None:
    lock, model = threading.Lock(), {"lock": LOCK}

    def outer(x: int) -> object:
        return [model for _ in range(x)]

    def keeps(x: int) -> object:
        return lock, x

    for function, path in (
        (outer, "model (a variable that train uses)['lock']"),
        (keeps, "lock (a variable that train uses)"),
        (functools.partial(print, LOCK), "train.args[0]"),
        (functools.partial(print, file=LOCK), "train.keywords['file']"),
        (Loader(LOCK).__init__, "train.__self__.value"),
    ):
        with pytest.raises(NotPicklableError) as caught:
            pickling.dumps(function, "train")
        assert caught.value.path == path


def test_part_that_pickle_leaves_out_is_not_blamed() -> None:
    value = [Hidden(LOCK), Loader(LOCK)]
    with pytest.raises(NotPicklableError) as caught:
        pickling.dumps(value, "args")
    assert caught.value.path == "args[1].value"


def test_value_in_a_circle_ends_the_search() -> None:
    circle: list[object] = [LOCK]
    circle.insert(0, circle)
    with pytest.raises(NotPicklableError) as caught:
        pickling.dumps(circle, "args")
    assert caught.value.path == "args[1]"
