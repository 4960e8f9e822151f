"""Plug-ins are found by being there, and only the one that is asked for is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from aitne.core.errors import SetupError
from aitne.core.platform.plugin_registry import Registry
from aitne_train import plugin_registry
from tests.support.requirements import need_package

FILES = {
    "__init__.py": "",
    "_helper.py": "raise RuntimeError('a helper is no plug-in')",
    "alpha.py": "class _Base:\n    name = 'base'\n\nclass Alpha(_Base):\n    name = 'alpha'\n",
    "beta.py": "from plugs_for_test.alpha import Alpha\n\nclass Beta:\n    name = 'beta'\n",
    "none.py": "class Nameless:\n    pass\n",
    "two.py": "class A:\n    name = 'two'\n\nclass B:\n    name = 'b'\n",
    "wrong.py": "class Wrong:\n    name = 'right'\n",
    "needy.py": "import a_module_that_nobody_has\n",
}


@pytest.fixture
def plugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[object]]:
    package = tmp_path / "plugs_for_test"
    package.mkdir()
    for name, text in FILES.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Registry("plug", "plugs_for_test", "aitne.plugs_for_test")
    for name in [each for each in sys.modules if each.startswith("plugs_for_test")]:
        del sys.modules[name]


def test_names_are_the_public_modules(plugs: Registry[object]) -> None:
    assert plugs.names() == ["alpha", "beta", "needy", "none", "two", "wrong"]
    assert not any(name.startswith("plugs_for_test.") for name in sys.modules)


def test_only_what_is_asked_for_is_imported(plugs: Registry[object]) -> None:
    assert plugs.get("alpha").__name__ == "Alpha"
    assert "plugs_for_test.beta" not in sys.modules


def test_an_imported_plugin_is_not_the_modules_own(plugs: Registry[object]) -> None:
    assert plugs.get("beta").__name__ == "Beta"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gamma", "There is no plug 'gamma'; there is: alpha, beta"),
        ("none", "must define exactly one public class with a name; found: none"),
        ("two", "found: A, B"),
        ("wrong", "has a class with the name 'right'"),
        ("needy", "cannot be loaded: No module named 'a_module_that_nobody_has'"),
    ],
)
def test_plugin_error_is_reported(plugs: Registry[object], name: str, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        plugs.get(name)


def test_entry_points_add_and_do_not_replace(
    plugs: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        EntryPoint("path", "pathlib:Path", "aitne.plugs_for_test"),
        EntryPoint("alpha", "pathlib:Path", "aitne.plugs_for_test"),
        EntryPoint("gone", "not_there_at_all:X", "aitne.plugs_for_test"),
    ]
    monkeypatch.setattr(plugin_registry, "entry_points", lambda group: points)
    assert {"path", "gone", "alpha"} <= set(plugs.names())
    assert plugs.get("alpha").__name__ == "Alpha"
    with pytest.raises(SetupError, match="cannot be loaded"):
        plugs.get("gone")


@pytest.mark.parametrize("kind", ["schedulers", "runtimes", "identity"])
def test_every_plugin_of_ours_keeps_to_the_rule(kind: str) -> None:
    if kind == "identity":
        need_package("bonsai")
    found = Registry[object](kind, f"aitne.adapters.{kind}", f"aitne.{kind}").all()
    assert found
    assert all(getattr(plugin, "name", None) == name for name, plugin in found.items())
