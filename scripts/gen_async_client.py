"""Generate the asynchronous client from the methods of the synchronous one.

Prints ``backend/aitne/client/aio.py``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from formatting import format_source

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "backend" / "aitne" / "client"

HEAD = '''\
"""The asynchronous client: ``Client`` with every method awaited. Made by ``make gen``; do not edit.

::

    from aitne import AsyncClient

    async with AsyncClient() as aitne:
        job = await aitne.jobs.create({"name": "hello", "commands": ["echo hello"]})
        async for chunk in aitne.jobs.follow_logs(job.id):
            print(chunk.decode(), end="")
        print((await aitne.jobs.wait(job.id)).state)

What each method does is said at its synchronous twin. Functions that are handed over, to hear of
progress for example, are called in another thread.
"""

# ruff: noqa: A002, D102, FBT

from __future__ import annotations

from aitne.client.client import Client
from aitne.client.thread_calls import call_in_thread, iterate_in_thread
'''

CLIENT = '''\
class AsyncClient:
    """Client of a platform, which without arguments is found as by the command line."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        platform: Platform | None = None,
        transport: RequestTransport | None = None,
    ) -> None:
        self._sync = Client(url, token, data_dir, platform=platform, transport=transport)
        self.platform = self._sync.platform
{attributes}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: no connection is kept between requests."""

    def __repr__(self) -> str:
        return f"AsyncClient({{self.platform.url!r}})"
{methods}
'''
ALWAYS = "import builtins\nimport os\nfrom collections.abc import AsyncIterator\nfrom typing import Self\n"


class Module:
    """One module of the client."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = ast.parse((PACKAGE / f"{name.rpartition('.')[2]}.py").read_text())
        self.classes = {
            node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)
        }
        self.type_variables = {
            ast.unparse(node.targets[0])
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func) == "TypeVar"
        }
        self.imports = {
            alias.asname or alias.name: f"from {node.module} import {alias.name}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def source_of(self, name: str) -> str | None:
        """Return the statement that imports a name of this module; None for an unknown name."""
        own = name in self.classes or any(
            isinstance(target, ast.Name) and target.id == name
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        )
        return f"from {self.name} import {name}" if own else self.imports.get(name)


class Writer:
    """Collects the methods and what they need."""

    def __init__(self) -> None:
        self.typing: set[str] = set()
        self.runtime: set[str] = set()

    def method(self, module: Module, node: ast.FunctionDef) -> str:
        """Return the source of the asynchronous counterpart of one method."""
        self._add_method_imports(module, node)
        arguments = _format_signature(node.args)
        passed = ", ".join([f"self._sync.{node.name}", *_list_call_arguments(node.args)])
        if module.type_variables & {
            each.id for each in ast.walk(node) if isinstance(each, ast.Name)
        }:
            # mypy does not solve a generic function as an argument.
            passed = f"lambda: self._sync.{node.name}({', '.join(_list_call_arguments(node.args))})"
        text, kind = _unwrap_iterator(node.returns)
        if kind:
            return (
                f"    def {node.name}({arguments}) -> AsyncIterator[{text}]:\n"
                f"        return iterate_in_thread({passed})\n"
            )
        verb = "await" if text == "None" else "return await"
        return f"    async def {node.name}({arguments}) -> {text}:\n        {verb} call_in_thread({passed})\n"

    def _add_method_imports(self, module: Module, node: ast.FunctionDef) -> None:
        args = node.args
        annotations = [each.annotation for each in (*args.args, *args.kwonlyargs)]
        annotations += [each.annotation for each in (args.vararg, args.kwarg) if each is not None]
        defaults = [each for each in (*args.defaults, *args.kw_defaults) if each is not None]
        self._add_imports(
            module, [*filter(None, annotations), *filter(None, [node.returns])], self.typing
        )
        self._add_imports(module, defaults, self.runtime)

    def _add_imports(self, module: Module, nodes: list[ast.expr], into: set[str]) -> None:
        for node in nodes:
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and (found := module.source_of(each.id)):
                    into.add(found)


def _format_annotation(node: ast.expr | None) -> str:
    if node is None:
        return "None"

    class Builtin(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            # A class with a method of that name hides the type.
            return ast.parse("builtins.list", mode="eval").body if name.id == "list" else name

    return ast.unparse(Builtin().visit(ast.parse(ast.unparse(node), mode="eval").body))


def _unwrap_iterator(node: ast.expr | None) -> tuple[str, bool]:
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Iterator":
        return _format_annotation(node.slice), True
    return _format_annotation(node), False


def _format_signature(args: ast.arguments) -> str:
    for each in (*args.args, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))):
        if each.annotation is not None:
            each.annotation = ast.parse(_format_annotation(each.annotation), mode="eval").body
    return ast.unparse(args)


def _list_call_arguments(args: ast.arguments) -> list[str]:
    found = [each.arg for each in args.args[1:]]
    found += [f"*{args.vararg.arg}"] if args.vararg else []
    found += [f"{each.arg}={each.arg}" for each in args.kwonlyargs]
    return found + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def _list_public_methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [
        each
        for each in node.body
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_")
    ]


def _list_class_and_bases(module: Module, name: str) -> list[tuple[Module, ast.ClassDef]]:
    """Return the class and the base classes that it has methods from, each with its module."""
    node = module.classes[name]
    found = [(module, node)]
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in module.imports:
            found += _list_class_and_bases(Module(module.imports[base.id].split()[1]), base.id)
    return found


def render_module() -> str:
    """Return the text of the module before formatting."""
    client = Module("aitne.client.client")
    writer = Writer()
    main = client.classes["Client"]
    attributes: list[tuple[str, str]] = []
    for node in ast.walk(main):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            target, made = ast.unparse(node.targets[0]).removeprefix("self."), node.value.func
            if isinstance(made, ast.Name) and not target.startswith("_"):
                attributes.append((target, made.id))
    classes = []
    for _, name in attributes:
        module = Module(client.imports[name].split()[1])
        writer.typing.add(f"from {module.name} import {name}")
        body = "\n".join(
            writer.method(of, each)
            for of, made in _list_class_and_bases(module, name)
            for each in _list_public_methods(made)
        )
        classes.append(
            f'class Async{name}:\n    """Asynchronous counterpart of ``{name}``: the same methods as coroutines."""\n\n'
            f"    def __init__(self, sync: {name}) -> None:\n        self._sync = sync\n\n{body}"
        )
    lines = "\n".join(
        f"        self.{target} = Async{name}(self._sync.{target})" for target, name in attributes
    )
    methods = "".join("\n" + writer.method(client, each) for each in _list_public_methods(main))
    for wanted in ("Platform", "RequestTransport"):
        writer.typing.add(client.source_of(wanted) or "")
    runtime = "".join(f"{each}\n" for each in sorted(writer.runtime))
    typing = "".join(
        f"    {each}\n"
        for each in [*ALWAYS.splitlines(), *sorted(writer.typing - writer.runtime)]
        if each
    )
    return "\n\n".join(
        [
            f"{HEAD}{runtime}\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n{typing}",
            *classes,
            CLIENT.format(attributes=lines, methods=methods),
        ]
    )


def main() -> None:
    """Print the module as the formatter leaves it."""
    sys.stdout.write(format_source(render_module(), PACKAGE / "aio.py"))


if __name__ == "__main__":
    main()
