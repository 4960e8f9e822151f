"""Follow an argument through the functions of the platform that receive it.

    $ python scripts/trace_argument.py services/jobs/jobs.py:JobService.create:file

A stop is a function that receives the argument, or a value made from it: the result of a call to
which it was passed, or of its own method. A field of it (`file.slurm`), its elements in a loop, and
attributes and classes in which it is stored are not followed. The way ends at a port, an adapter and
the store. Calls are resolved by imports, annotations and the assignments of `__init__`; the variable
of a loop over a tuple of functions calls all of them. Prints these (`*`) and the other stops.
"""

from __future__ import annotations

import argparse
import ast
from dataclasses import dataclass
from pathlib import Path

ENDS = ("aitne.core.ports", "aitne.adapters", "aitne.store")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
WHOLE = ast.Await | ast.Starred | ast.NamedExpr | ast.BoolOp | ast.IfExp | ast.Tuple | ast.List
WHOLE |= ast.Set | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Definition:
    """Function, class or assignment in a module; `owner` is the class of a method."""

    module: str
    node: ast.AST
    owner: Definition | None = None

    @property
    def parameters(self) -> list[ast.arg]:
        """Return the parameters of the function, without `self`."""
        given = getattr(self.node, "args", None)
        found = [*given.posonlyargs, *given.args, *given.kwonlyargs] if given else []
        return found[1:] if found and found[0].arg in ("self", "cls") else found


class Program:
    """Modules below a folder, and what the names in them mean."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[str, dict[str, Definition | str]] = {}

    def path_of(self, module: str) -> Path:
        """Return the file of a module."""
        path = self._folder.joinpath(*module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def find(self, module: str, name: str) -> Definition | str | None:
        """Return the meaning of a name in a module: a definition, or the name of a module."""
        path, names = self.path_of(module), self._modules.setdefault(module, {})
        for node in ast.parse(path.read_text("utf-8")).body if path.exists() and not names else ():
            if isinstance(node, ast.ImportFrom):
                names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            defined = [*targets_of(node), getattr(node, "name", "")]
            names |= dict.fromkeys(defined, Definition(module, node))
        meaning = names.get(name)
        if not isinstance(meaning, str) or self.path_of(meaning).exists():
            return meaning
        above, _, last = meaning.rpartition(".")
        return self.find(above, last) if self.path_of(above).exists() else None

    def member(self, owner: Definition, name: str) -> Definition | None:
        """Return the method or attribute of a class, or of a base class."""
        for node in getattr(owner.node, "body", []):
            if getattr(node, "name", None) == name or name in targets_of(node):
                return Definition(owner.module, node, owner)
            for line in ast.walk(node) if getattr(node, "name", "") == "__init__" else ():
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == f"self.{name}":
                    return Definition(owner.module, line, Definition(owner.module, node, owner))
        bases = [self.class_of(owner.module, base) for base in getattr(owner.node, "bases", [])]
        return next((found for base in bases if base and (found := self.member(base, name))), None)

    def class_of(self, module: str, annotation: ast.AST | None) -> Definition | None:
        """Return the class that an annotation names, such as `Job` of `Job | None`."""
        nodes = ast.walk(annotation) if annotation else ()
        found = [self.find(module, node.id) for node in nodes if isinstance(node, ast.Name)]
        classes = [each for each in found if isinstance(getattr(each, "node", None), ast.ClassDef)]
        return classes[0] if classes else None

    def type_of(self, value: ast.AST, place: Definition) -> Definition | None:
        """Return the class of an expression in a function; None if it is not known."""
        found: Definition | None = None
        value = value.value if isinstance(value, ast.Await) else value
        if isinstance(value, ast.Name):
            if value.id in ("self", "cls"):
                return place.owner
            for parameter in place.parameters:
                if parameter.arg == value.id:
                    return self.class_of(place.module, parameter.annotation)
            for node in ast.walk(place.node):
                if targets_of(node) == [value.id] and not carries_any_name(node.value, {value.id}):
                    return self.type_of(node.value, place)
            return self.class_of(place.module, value)
        if isinstance(value, ast.Call):
            found = next(iter(self.called(value.func, place)), None)
        elif isinstance(value, ast.Attribute) and (owner := self.type_of(value.value, place)):
            found = self.member(owner, value.attr)
        if found is None or isinstance(found.node, ast.ClassDef):
            return found
        if isinstance(found.node, ast.Assign):
            return self.type_of(found.node.value, found.owner)
        written = "returns" if isinstance(found.node, FUNCTIONS) else "annotation"
        return self.class_of(found.module, getattr(found.node, written))

    def called(self, function: ast.AST, place: Definition) -> list[Definition]:
        """Return the functions or classes that a call in the function `place` may call."""
        found: Definition | str | None = None
        if isinstance(function, ast.Name):
            for loop in [node for node in ast.walk(place.node) if isinstance(node, ast.For)]:
                listed = self.find(place.module, ast.unparse(loop.iter))
                if ast.unparse(loop.target) == function.id and isinstance(listed, Definition):
                    checks = getattr(getattr(listed.node, "value", None), "elts", [])
                    return [each for check in checks for each in self.called(check, listed)]
            found = self.find(place.module, function.id)
        elif isinstance(function, ast.Attribute):
            found = self.find(place.module, ast.unparse(function.value))
            if isinstance(found, str):
                found = self.find(found, function.attr)
            elif owner := self.type_of(function.value, place):
                found = self.member(owner, function.attr)
        return [found] if isinstance(getattr(found, "node", None), FUNCTIONS | ast.ClassDef) else []


def targets_of(node: ast.AST) -> list[str]:
    """Return the names to which an assignment assigns."""
    assigns = isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)
    targets = getattr(node, "targets", [getattr(node, "target", None)]) if assigns else []
    parts = [part for target in targets for part in getattr(target, "elts", [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def carries_any_name(value: ast.AST | None, names: set[str]) -> bool:
    """Return whether an expression is, contains or is made from what one of the names stands for."""
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Call):
        arguments = [*value.args, *(keyword.value for keyword in value.keywords)]
        return any(
            carries_any_name(each, names)
            for each in [getattr(value.func, "value", None), *arguments]
        )
    test = getattr(value, "test", None)
    parts = ast.iter_child_nodes(value) if isinstance(value, WHOLE) else ()
    return any(carries_any_name(part, names) for part in parts if part is not test)


def trace_argument(program: Program, start: Definition, name: str) -> tuple[dict, set[Definition]]:
    """Return each function that receives the argument with its names there, and those of lists."""
    stops, listed, waiting = {start: {name}}, set[Definition](), [start]
    while waiting:
        place = waiting.pop()
        names, nodes, size = stops[place], list(ast.walk(place.node)), 0
        while size != len(names) and not place.module.startswith(ENDS):
            size = len(names)
            assigned = [
                node for node in nodes if carries_any_name(getattr(node, "value", None), names)
            ]
            names.update(target for node in assigned for target in targets_of(node))
        for call in (node for node in nodes if isinstance(node, ast.Call) and size):
            found = program.called(call.func, place)
            for stop in (program.member(each, "__init__") or each for each in found):
                known = [parameter.arg for parameter in stop.parameters]
                given = dict(zip(known, call.args, strict=False))
                given |= {key.arg: key.value for key in call.keywords if key.arg in known}
                received = {arg for arg, value in given.items() if carries_any_name(value, names)}
                if received - stops.setdefault(stop, set()):
                    stops[stop] |= received
                    listed |= {stop} if len(found) > 1 else set()
                    waiting.append(stop)
    return {stop: names for stop, names in stops.items() if names}, listed


def main() -> None:
    """Print the way of the argument that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("argument", metavar="MODULE:CLASS.METHOD:ARGUMENT")
    backend = Path(__file__).resolve().parents[1] / "backend"
    parser.add_argument("--backend", type=Path, default=backend, help="folder of the package")
    options = parser.parse_args()
    program, (path, function, name) = Program(options.backend), options.argument.split(":")
    module, found = "aitne." + path.removesuffix(".py").replace("/", "."), None
    for part in function.split("."):
        found = program.member(found, part) if found else program.find(module, part)
    if found is None or name not in [parameter.arg for parameter in found.parameters]:
        parser.error(f"there is no argument {options.argument}")
    stops, listed = trace_argument(program, found, name)
    for stop, names in stops.items():
        owner = f"{stop.owner.node.name}." if stop.owner else ""
        place = f"{program.path_of(stop.module).relative_to(options.backend)}:{stop.node.lineno}"
        print(" *"[stop in listed], owner + stop.node.name, place, *sorted(names))
    names = set().union(*stops.values())
    print(f"{len(stops)} stops, {len(listed)} of them in lists of functions; {len(names)} names")


if __name__ == "__main__":
    main()
