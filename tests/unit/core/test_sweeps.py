"""The settings of a sweep, and what a job file may ask for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aitne.core.models.sweep import Goal, StopSpec, SweepFile, SweepSpec
from aitne.core.sweeps import (
    expand_sweep,
    find_best_task,
    format_array,
    format_parameter_value,
    make_sweep_variables,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
CHOICES = st.lists(
    st.integers(-1000, 1000) | st.text("abc xyz'\"$`", max_size=5),
    min_size=1,
    max_size=5,
    unique=True,
)
RANGES = st.builds(
    lambda low, more, log, whole: {
        "min": low if not whole else math.ceil(low),
        "max": (low if not whole else math.ceil(low)) + more,
        "log": log,
        "type": "int" if whole else "float",
    },
    st.floats(0.001, 1000),
    st.integers(1, 1000),
    st.booleans(),
    st.booleans(),
)


def spec(**fields: object) -> SweepSpec:
    return SweepSpec.from_file(SweepFile.model_validate(fields))


@given(st.dictionaries(NAMES, CHOICES, min_size=1, max_size=3))
def test_a_grid_has_every_combination_once(parameters: dict[str, list[object]]) -> None:
    found = expand_sweep(spec(method="grid", parameters=parameters))
    assert len(found) == math.prod(map(len, parameters.values()))
    assert len({tuple(each.items()) for each in found}) == len(found)
    assert all(each[name] in values for each in found for name, values in parameters.items())


@given(
    st.dictionaries(NAMES, RANGES | CHOICES, min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(0, 2**53 - 1),
)
def test_samples_lie_within_their_ranges_and_more_of_them_begin_the_same(
    parameters: dict[str, object], few: int, more: int, seed: int
) -> None:
    given = {"method": "random", "parameters": parameters, "seed": seed}
    short, long = (expand_sweep(spec(**given, samples=count)) for count in (few, few + more))
    assert long[: len(short)] == short
    assert len({repr(each) for each in long}) == len(long) <= few + more
    for setting in long:
        for name, choices in parameters.items():
            value = setting[name]
            if isinstance(choices, list):
                assert value in choices
            else:
                assert isinstance(choices, dict)
                assert choices["min"] <= value <= choices["max"]
                assert isinstance(value, int) == (choices["type"] == "int")


def test_a_seed_means_the_same_samples_for_ever() -> None:
    found = expand_sweep(
        spec(
            method="random",
            samples=3,
            seed=7,
            parameters={"lr": {"min": 1e-4, "max": 0.1, "log": True}, "width": [16, 32, 64]},
        )
    )
    assert found == SAMPLES_OF_7


SAMPLES_OF_7 = [
    {"lr": 0.00093648, "width": 16},
    {"lr": 0.00897023, "width": 16},
    {"lr": 0.00405178, "width": 32},
]


def test_few_choices_make_fewer_settings_than_samples() -> None:
    assert (
        len(expand_sweep(spec(method="random", samples=50, parameters={"a": [1, 2], "b": [3]})))
        == 2
    )


def test_a_list_goes_through_all_values_together() -> None:
    found = expand_sweep(spec(method="list", parameters={"lr": [0.1, 0.2], "name": ["a", "b"]}))
    assert found == [{"lr": 0.1, "name": "a"}, {"lr": 0.2, "name": "b"}]


def test_numbers_in_yamls_clothes_are_numbers() -> None:
    assert expand_sweep(spec(parameters={"lr": ["1e-3", "x1e-3"]})) == [
        {"lr": 0.001},
        {"lr": "x1e-3"},
    ]


def test_variables_are_text_that_programs_read() -> None:
    assert make_sweep_variables({"lr": 1e-05, "use_bias": True, "name": "$(id)", "n": 3}) == {
        "AITNE_PARAM_LR": "1e-05",
        "AITNE_PARAM_USE_BIAS": "true",
        "AITNE_PARAM_NAME": "$(id)",
        "AITNE_PARAM_N": "3",
    }
    assert format_parameter_value(0.1) == "0.1"


def test_the_best_is_the_first_of_equals() -> None:
    assert find_best_task({0: 0.5, 1: 0.9, 2: 0.9}, Goal.MAX) == 1
    assert find_best_task({0: 0.5, 1: 0.9}, Goal.MIN) == 0
    assert find_best_task({}, Goal.MIN) is None


def test_arrays() -> None:
    assert [format_array(1, None), format_array(4, None), format_array(4, 2)] == [
        "0",
        "0-3",
        "0-3%2",
    ]


def test_value_may_occur_twice_in_a_column_of_a_list() -> None:
    lists = {"lr": [0.1, 0.1, 1], "wd": [0, 1, 0], "norm": [True, True, 1]}
    sweep = SweepFile.model_validate({"method": "list", "parameters": lists})
    assert expand_sweep(SweepSpec.from_file(sweep)) == [
        {"lr": 0.1, "wd": 0, "norm": True},
        {"lr": 0.1, "wd": 1, "norm": True},
        {"lr": 1, "wd": 0, "norm": 1},
    ]


def test_good_enough_is_as_good_or_better() -> None:
    most = StopSpec(metric="accuracy", goal=Goal.MAX, value=0.9)
    least = StopSpec(metric="loss", goal=Goal.MIN, value=0.1)
    assert [most.is_met(each) for each in (0.89, 0.9, 0.91, None)] == [False, True, True, False]
    assert [least.is_met(each) for each in (0.11, 0.1, 0.09, None)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"parameters": {}}, "at least 1"),
        ({"parameters": {"a b": [1]}}, "pattern"),
        ({"parameters": {"a": [1], "A": [2]}}, "upper and lower"),
        (
            {"method": "list", "parameters": {"a": [1, 2, 1], "b": [0, 1, 0]}},
            "the same setting is listed twice: its values 1 and 3",
        ),
        ({"parameters": {"a": [1, 1]}}, "twice"),
        ({"parameters": {"a": [float("nan")]}}, "infinite numbers and NaN are not possible"),
        ({"parameters": {"a": [{"$float": "inf"}]}}, "infinite numbers and NaN are not possible"),
        ({"parameters": {"a": {"min": 0, "max": 1}}}, "only for random"),
        ({"method": "random", "parameters": {"a": [1]}}, "number of"),
        ({"parameters": {"a": [1]}, "samples": 3}, "only for random"),
        ({"method": "list", "parameters": {"a": [1], "b": [1, 2]}}, "same number of values"),
        ({"parameters": {n: list(range(40)) for n in "ab"}}, "1600 settings"),
        (
            {"method": "random", "samples": 1, "parameters": {"a": {"min": 0, "max": 1, "log": True}}},
            "above 0",
        ),
        ({"method": "random", "samples": 1, "parameters": {"a": {"min": 1, "max": 1}}}, "less than"),
        (
            {
                "method": "random",
                "samples": 1,
                "parameters": {"a": {"min": 0.5, "max": 2, "type": "int"}},
            },
            "whole",
        ),
        ({"parameters": {"a": [1]}, "stop_when": {"value": 1}}, "needs a metric"),
        ({"parameters": {"a": [1]}, "samplse": 1}, "samplse"),
        ({"parameters": {"a": [*range(200)], "b": [*"abcde"], "c": ["x" * 1_000], "d": ["y" * 100]}}, "characters"),
        ({"method": "random", "samples": 1_000, "parameters": {f"p{n}": ["x" * 1_000] for n in range(20)}}, "characters"),
    ],
)  # fmt: skip
def test_invalid_sweep_is_refused(fields: dict[str, object], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        SweepFile.model_validate(fields)
