"""Rename modules, functions and methods of a typed Python project from a table. See README."""
from __future__ import annotations

import argparse, ast, collections, fnmatch, os, pickle, re, subprocess, sys, time
from pathlib import Path

from mypy import build as mbuild
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.nodes import (CallExpr, ClassDef, Decorator, FuncDef, IndexExpr, MemberExpr, MypyFile, NameExpr, Node,
                        OverloadedFuncDef, StrExpr, SuperExpr, SymbolNode, TypeAlias, TypeInfo, Var)
from mypy.types import (AnyType, CallableType, FunctionLike, Instance, LiteralType, NoneType, Overloaded,
                        TupleType, TypedDictType, TypeType, TypeVarType, UnionType, get_proper_type)

SKIP_DIRS = {".git", ".venv", "node_modules", ".mypy_cache", "__pycache__", ".pytest_cache", "dist", "build", ".ruff_cache"}


def python_files(root: Path, dirs):
    for d in dirs:
        base = root / d
        if base.is_file():
            yield base
            continue
        for folder, subs, names in os.walk(base):
            subs[:] = sorted(s for s in subs if s not in SKIP_DIRS)
            for n in sorted(names):
                if n.endswith(".py"):
                    yield Path(folder) / n


ALSO_ROOTED = ()  # other folders imported from the folder above them


def module_name(root: Path, path: Path, bases) -> str:
    rel = path.relative_to(root)
    for b in (*bases, *ALSO_ROOTED):  # "backend/aitne" -> the folder above is an import root
        if rel.parts[: len(Path(b).parts)] == Path(b).parts:
            rel = rel.relative_to(Path(b).parent)
            break
    parts = list(rel.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


class Index:
    """What mypy knows of a project, as plain data: references, symbols and classes of each module."""

    def __init__(self, root: Path, dirs, packages):
        files = list(python_files(root, dirs))
        sources, seen = [], set()
        for f in files:
            m = module_name(root, f, packages)
            if m in seen or not all(p.isidentifier() for p in m.split(".")):
                continue
            seen.add(m)
            sources.append(BuildSource(str(f), m))
        os.chdir(root)
        _, options = process_options(["--config-file", "pyproject.toml", "--no-incremental", "--check-untyped-defs",
                                      "--python-executable", sys.executable, "-p", packages[0].split("/")[-1]])
        options.export_types = True
        options.preserve_asts = True
        options.incremental = False
        options.cache_dir = os.devnull
        options.mypy_path = [str(root / Path(p).parent) for p in packages] + [str(root)]
        options.namespace_packages = True
        options.explicit_package_bases = True
        options.check_untyped_defs = True
        t = time.time()
        import io
        result = mbuild.build(sources, options, stdout=io.StringIO(), stderr=io.StringIO())
        print(f"mypy: {time.time()-t:.0f} s, {len(result.errors)} messages", file=sys.stderr)
        types = result.types
        self.paths, self.texts, self.refs, self.symbols, self.infos = {}, {}, {}, {}, {}
        for s in sources:
            state = result.graph.get(s.module)
            if state is None or state.tree is None:
                continue
            m = s.module
            globals()["TREE"] = state.tree
            self.paths[m] = Path(s.path).relative_to(root).as_posix()
            self.texts[m] = Path(s.path).read_bytes()
            self.symbols[m] = {n: key_of(sym.node, m) for n, sym in state.tree.names.items() if sym.node is not None}
            self.refs[m], classes = references(state.tree, m, types)
            for info in classes:
                self.infos[info.fullname] = {
                    "mro": [b.fullname for b in info.mro], "any": info.fallback_to_any,
                    "names": sorted(info.names)}
                for base in info.mro:
                    self.infos.setdefault("~" + base.fullname, {"names": sorted(base.names)})
        print(f"walked: {time.time()-t:.0f} s", file=sys.stderr)


NOT_CHILDREN = {"node", "info", "type", "unanalyzed_type", "original_def", "analyzed_type", "def_var", "names", "mro",
                "metaclass_type", "alias_tvars", "expanded", "_fullname", "fullname", "original_first_arg",
                "unanalyzed_items", "tvar_values", "old_type", "new_type", "imports", "alias_deps", "future_import_flags"}
_children: dict[type, list[str]] = {}


def children_of(cls):
    names = _children.get(cls)
    if names is None:
        names = [n for n in dir(cls) if not n.startswith("__") and n not in NOT_CHILDREN
                 and type(getattr(cls, n, None)).__name__ == "getset_descriptor"]
        _children[cls] = names
    return names


def references(tree, module, types):
    found, classes, seen = [], [], set()
    stack = list(tree.defs)

    def push(v):
        if isinstance(v, Node):
            if not isinstance(v, (TypeInfo, MypyFile)) and id(v) not in seen:
                seen.add(id(v))
                stack.append(v)
        elif isinstance(v, (list, tuple)):
            for x in v:
                push(x)
        elif isinstance(v, dict):
            for x in v.values():
                push(x)

    while stack:
        o = stack.pop()
        if isinstance(o, NameExpr):
            if o.node is not None:
                k = key_of(o.node, module)
                if k:
                    found.append((o.line, o.column, o.name, frozenset([k]), "name"))
            continue
        if isinstance(o, MemberExpr):
            col = (o.end_column or 0) - len(o.name.encode())
            keys = member_keys(o, module, types)
            found.append((o.end_line, col, o.name, None if keys is None else frozenset(keys), "member"))
        elif isinstance(o, SuperExpr):
            if o.info:
                base, _ = lookup(o.info, o.name, True)
                found.append((o.end_line, (o.end_column or 0) - len(o.name.encode()), o.name,
                              frozenset([base.fullname + "." + o.name]) if base else None, "member"))
        elif isinstance(o, ClassDef):
            classes.append(o.info)
        for n in children_of(type(o)):
            try:
                v = getattr(o, n)
            except Exception:
                continue
            if v is not None and not isinstance(v, (str, int, bool, float)):
                push(v)
    return sorted({f for f in found if f[0] is not None and f[1] is not None}, key=lambda f: f[:3]), classes


def func_of(node):
    """The FuncDef behind a symbol."""
    if isinstance(node, Decorator):
        return node.func
    if isinstance(node, OverloadedFuncDef):
        it = node.items[0]
        return it.func if isinstance(it, Decorator) else it
    if isinstance(node, FuncDef):
        return node
    return None


TREE = None
"""The module that is walked."""


def key_of(node, module):
    """Identity of a function: 'module.Class.name', 'module.name' or ('local', module, line)."""
    f = func_of(node)
    if f is None:
        if isinstance(node, MypyFile):
            return "M:" + node.fullname
        if isinstance(node, Var) and node.info and node.info.fullname and not node.is_self is True:
            return node.info.fullname + "." + node.name
        return None
    if f.info and f.info is not None and getattr(f.info, "fullname", None) and f.info.names.get(f.name) is not None:
        g = func_of(f.info.names[f.name].node)
        if g is f or g is not None:
            return f.info.fullname + "." + f.name
    if f.fullname == f"{module}.{f.name}" or "." in (f.fullname or "") and not f.fullname.startswith(module + "."):
        top = TREE.names.get(f.name) if TREE is not None and f.fullname == f"{module}.{f.name}" and TREE.fullname == module else None
        if top is None or func_of(top.node) is f:
            return f.fullname
    return f"local:{module}:{f.line}:{f.name}"


def owner_infos(t, project, depth=0):
    """The classes of which a value of this type is an instance (or which it is); None if unknown."""
    t = get_proper_type(t)
    if t is None or depth > 8:
        return None
    if isinstance(t, AnyType):
        return None
    if isinstance(t, Instance):
        return [t.type]
    if isinstance(t, UnionType):
        out = []
        for i in t.items:
            if isinstance(get_proper_type(i), NoneType):
                continue
            r = owner_infos(i, project, depth + 1)
            if r is None:
                return None
            out += r
        return out
    if isinstance(t, TypeType):
        return owner_infos(t.item, project, depth + 1)
    if isinstance(t, TypeVarType):
        return owner_infos(t.upper_bound, project, depth + 1)
    if isinstance(t, TupleType):
        return [t.partial_fallback.type]
    if isinstance(t, TypedDictType):
        return [t.fallback.type]
    if isinstance(t, LiteralType):
        return [t.fallback.type]
    if isinstance(t, (CallableType, Overloaded)):
        if t.is_type_obj():
            return [t.type_object()]
        return []
    return []


def lookup(info, name, skip_self=False):
    for base in info.mro[1 if skip_self else 0:]:
        if name in base.names:
            return base, base.names[name].node
    return None, None


def member_keys(o, module, types):
    e = o.expr
    if isinstance(e, (NameExpr, MemberExpr)) and isinstance(e.node, MypyFile):
        sym = e.node.names.get(o.name)
        if sym and sym.node is not None:
            k = key_of(sym.node, e.node.fullname)
            return {k} if k else set()
        k = key_of(o.node, module) if o.node is not None else None
        return None if k is None else {k}
    if isinstance(e, (NameExpr, MemberExpr)) and isinstance(e.node, TypeInfo):
        infos = [e.node]
    else:
        t = types.get(e)
        infos = owner_infos(t, None) if t is not None else None
    if infos is None:
        return None
    keys = set()
    for info in infos:
        base, _ = lookup(info, o.name)
        if base is None:
            if info.fallback_to_any:
                return None
            continue
        keys.add(base.fullname + "." + o.name)
    return keys


def read_table(path):
    rows = []
    for n, line in enumerate(Path(path).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        if len(cells) < 3:
            sys.exit(f"{path}:{n}: kind, old, new, reason expected")
        kind, old, new = (c.strip() for c in cells[:3])
        if new in ("", "stays") or kind not in ("function", "method", "module", "local", "property", "parameter"):
            continue
        rows.append((kind, old, new))
    return rows


def definitions(source: bytes):
    """(qualified name, name, line, byte column of the name) of each def."""
    tree = ast.parse(source)
    lines = source.split(b"\n")
    out = []

    def walk(body_node, prefix):
        for c in ast.iter_child_nodes(body_node):
            if isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef)):
                m = re.compile(rb"(?:async\s+)?def\s+").match(lines[c.lineno - 1], c.col_offset)
                out.append((prefix + c.name, c.name, c.lineno, m.end(), c))
                walk(c, prefix + c.name + ".")
            elif isinstance(c, ast.ClassDef):
                walk(c, prefix + c.name + ".")
            else:
                walk(c, prefix)

    walk(tree, "")
    return tree, lines, out


class Edits:
    def __init__(self):
        self.by_file = collections.defaultdict(dict)  # path -> {(line, col): (old, new)}
        self.mismatch = []

    def add(self, path, lines, line, col, old, new):
        b = old.encode()
        text = lines[line - 1] if line - 1 < len(lines) else b""
        if text[col:col + len(b)] != b or re.match(rb"\w", text[col + len(b):col + len(b) + 1]):
            self.mismatch.append((path, line, col, old, new))
            return False
        self.by_file[path][(line, col)] = (old, new)
        return True

    def write(self):
        for path, edits in self.by_file.items():
            lines = path.read_bytes().split(b"\n")
            for (line, col), (old, new) in sorted(edits.items(), reverse=True):
                t = lines[line - 1]
                assert t[col:col + len(old.encode())] == old.encode(), (path, line, col, old)
                lines[line - 1] = t[:col] + new.encode() + t[col + len(old.encode()):]
            path.write_bytes(b"\n".join(lines))


def rename_functions(a, rows, index, edits, frozen):
    root = Path(a.root).resolve()
    paths = {m: root / p for m, p in index["paths"].items()}
    infos = {k: v for k, v in index["infos"].items() if not k.startswith("~")}
    names_of = {**{k[1:]: set(v["names"]) for k, v in index["infos"].items() if k.startswith("~")}}
    parsed = {m: definitions(t) for m, t in index["texts"].items()}
    problems = []
    where = {}
    for m, (_, _, defs) in parsed.items():
        for qual, name, line, col, node in defs:
            where.setdefault(f"{m}.{qual}", []).append((m, name, line, col))
    renames, def_sites = {}, []
    for kind, old, new in rows:
        if old not in where:
            problems.append(f"not found: {old}")
            continue
        parent = old.rsplit(".", 1)[0]
        if parent in infos or parent == where[old][0][0]:
            renames[old] = new
        else:  # inside a function
            for mm, n, line, col in where[old]:
                renames[f"local:{mm}:{line}:{n}"] = new
                def_sites.append((mm, line, col, n, new))
    changed = True
    while changed:
        changed = False
        for fullname, info in infos.items():
            for name in info["names"]:
                mine = f"{fullname}.{name}"
                for base in info["mro"][1:]:
                    theirs = f"{base}.{name}"
                    if name not in names_of.get(base, ()) or base == "builtins.object":
                        continue
                    if theirs in renames and mine not in renames:
                        renames[mine] = renames[theirs]
                        print("override too:", mine, "->", renames[mine], file=sys.stderr)
                        changed = True
                    elif mine in renames and theirs not in renames:
                        if base in infos:
                            renames[theirs] = renames[mine]
                            print("base too:", theirs, "->", renames[mine], file=sys.stderr)
                        else:
                            problems.append(f"{mine} overrides {theirs} of another package")
                            del renames[mine]
                        changed = True
                        break
                    elif mine in renames and renames[mine] != renames[theirs]:
                        problems.append(f"{mine} -> {renames[mine]} but {theirs} -> {renames[theirs]}")
    old_names = collections.defaultdict(set)
    for k, new in renames.items():
        old_names[k.rsplit(":" if k.startswith("local:") else ".", 1)[1]].add(new)
    unresolved, strings = [], []
    frozen_hits = collections.defaultdict(set)
    accept = []
    if a.accept and Path(a.accept).exists():
        for line in Path(a.accept).read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                accept.append(line.split("\t")[:3])

    def put(path, lines, line, col, old, new, key):
        if frozen(path):
            frozen_hits[key].add(path.relative_to(root).as_posix())
            return
        edits.add(path, lines, line, col, old, new)

    for m, (_, lines, defs) in parsed.items():
        for qual, name, line, col, node in defs:
            full = f"{m}.{qual}"
            if full in renames:
                put(paths[m], lines, line, col, name, renames[full], full)
    for m, line, col, n, new in def_sites:
        put(paths[m], parsed[m][1], line, col, n, new, n)
    for m, refs in index["refs"].items():
        path, lines = paths[m], parsed[m][1]
        for line, col, name, keys, kind in refs:
            if name not in old_names:
                continue
            if keys is None:
                rel = path.relative_to(root).as_posix()
                text = lines[line - 1].decode().strip()
                hit = [new for g, n, new in accept if n == name and (fnmatch.fnmatch(f"{rel}:{line}", g) or fnmatch.fnmatch(rel, g))]
                if hit:
                    if hit[0] != "-":
                        put(path, lines, line, col, name, hit[0], name)
                else:
                    unresolved.append((rel, line, name, "|".join(sorted(old_names[name])), text))
                continue
            new = {renames[k] for k in keys if k in renames}
            if not new:
                continue
            if len(new) > 1 or any(k not in renames for k in keys):
                problems.append(f"{path}:{line}: {name} is {sorted(keys)}")
                continue
            put(path, lines, line, col, name, new.pop(), next(iter(keys)))
    for m, (tree, lines, defs) in parsed.items():
        path = paths[m]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                source = absolute(node, m, path)
                for al in node.names:
                    if al.name not in old_names or source not in index["symbols"]:
                        continue
                    k = index["symbols"][source].get(al.name) or f"{source}.{al.name}"
                    if k in renames:
                        put(path, lines, al.lineno, al.col_offset, al.name, renames[k], k)
            elif isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", "")) in STRING_CALLS:
                for x in node.args:
                    if isinstance(x, ast.Constant) and x.value in old_names:
                        strings.append((path.relative_to(root).as_posix(), x.lineno, x.value))
        for stmt in tree.body:
            if isinstance(stmt, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in stmt.targets):
                for el in getattr(stmt.value, "elts", []):
                    if isinstance(el, ast.Constant) and el.value in old_names:
                        k = index["symbols"][m].get(el.value)
                        if k in renames:
                            put(path, lines, el.lineno, el.col_offset + 1, el.value, renames[k], k)
    for k, new in renames.items():
        if k.startswith("local:"):
            continue
        parent = k.rsplit(".", 1)[0]
        if parent in infos:
            for base in infos[parent]["mro"]:
                if new in names_of.get(base, ()) and f"{base}.{new}" not in renames:
                    problems.append(f"{k} -> {new}: {base} has {new} already")
            for other, info in infos.items():
                if parent in info["mro"][1:] and new in info["names"] and f"{other}.{new}" not in renames:
                    problems.append(f"{k} -> {new}: the subclass {other} has {new} already")
        elif new in index["symbols"].get(parent, ()) and f"{parent}.{new}" not in renames:
            problems.append(f"{k} -> {new}: the module has {new} already")
    for path, places in edits.by_file.items():
        text = path.read_bytes()
        tokens = names_bound(text)
        lines = text.split(b"\n")
        for (line, col), (old, new) in places.items():
            before = lines[line - 1][:col].rstrip()
            if new in tokens and not before.endswith((b".", b"def")):
                problems.append(f"{path.relative_to(root)}:{line}: {old} -> {new}: the file binds {new} already")
    with open(a.report, "w") as f:
        for x in sorted(set(problems)):
            f.write("PROBLEM " + x + "\n")
        for k, files in sorted(frozen_hits.items()):
            f.write(f"FROZEN {k}: {', '.join(sorted(files))}\n")
        for path, line, col, old, new in in_fstrings(edits, parsed, {v: k for k, v in paths.items()}):
            f.write(f"POSITION {path.relative_to(root)}:{line}:{col} {old} -> {new}\n")
        for x in unresolved:
            f.write("UNKNOWN\t{}:{}\t{}\t{}\t{}\n".format(*x))
        for rel, line, v in strings:
            f.write(f"STRING {rel}:{line} {v!r} ({'|'.join(sorted(old_names[v]))})\n")
    n = sum(len(v) for v in edits.by_file.values())
    print(f"{len(renames)} names, {n} edits in {len(edits.by_file)} files; {len(set(problems))} problems, "
          f"{len(frozen_hits)} frozen, {len(unresolved)} unknown receivers, {len(strings)} strings; report: {a.report}")
    with open(str(a.report) + ".names", "w") as f:
        for k, new in sorted(renames.items()):
            f.write(f"{k}\t{new}\n")
    return renames


def rename_parameters(a, rows, index, edits, frozen):
    """Parameters of functions: the parameter, its uses in the body, keywords of calls, the docstring."""
    root = Path(a.root).resolve()
    paths = {m: root / p for m, p in index["paths"].items()}
    parsed = {m: definitions(t) for m, t in index["texts"].items()}
    wanted, problems = {}, []
    for _, old, new in rows:
        full, arg = old.rstrip(")").split("(")
        wanted[full, arg] = new
    done = set()
    for m, (_, lines, defs) in parsed.items():
        for qual, name, line, col, node in defs:
            full = f"{m}.{qual}"
            args = node.args.posonlyargs + node.args.args + node.args.kwonlyargs + [x for x in (node.args.vararg, node.args.kwarg) if x]
            for x in args:
                new = wanted.get((full, x.arg))
                if new is None:
                    continue
                done.add((full, x.arg))
                if frozen(paths[m]):
                    problems.append(f"FROZEN {full}({x.arg})")
                    continue
                bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
                if new in bound:
                    problems.append(f"{full}({x.arg}): the function has the name {new} already")
                edits.add(paths[m], lines, x.lineno, x.col_offset, x.arg, new)

                def visit(n):
                    for c in ast.iter_child_nodes(n):
                        if isinstance(c, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                            inner = c.args.posonlyargs + c.args.args + c.args.kwonlyargs
                            if any(i.arg == x.arg for i in inner):
                                continue
                        if isinstance(c, ast.Name) and c.id == x.arg:
                            edits.add(paths[m], lines, c.lineno, c.col_offset, x.arg, new)
                        visit(c)

                for stmt in node.body:
                    if isinstance(stmt, ast.Name):
                        continue
                    visit(ast.Module([stmt], []))
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                    for n in range(first.lineno, first.end_lineno + 1):
                        for h in re.finditer(rb"(?:(?<=``)" + x.arg.encode() + rb"(?=``)|(?<=^ {8})" + x.arg.encode() + rb"(?=: )|(?<=^ {12})" + x.arg.encode() + rb"(?=: ))", lines[n - 1]):
                            edits.add(paths[m], lines, n, h.start(), x.arg, new)
    args_of = collections.defaultdict(dict)
    for (full, arg), new in wanted.items():
        args_of[full][arg] = new
    for m, (tree, lines, _) in parsed.items():
        refs = {(l, c): keys for l, c, n, keys, k in index["refs"][m] if keys}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.keywords:
                continue
            f = node.func
            spot = (f.lineno, f.col_offset) if isinstance(f, ast.Name) else (f.end_lineno, f.end_col_offset - len(f.attr.encode())) if isinstance(f, ast.Attribute) else None
            for key in refs.get(spot, ()):
                for kw in node.keywords:
                    if kw.arg in args_of.get(key, {}):
                        if frozen(paths[m]):
                            problems.append(f"FROZEN {paths[m]}:{kw.lineno} {kw.arg}")
                        else:
                            edits.add(paths[m], lines, kw.lineno, kw.col_offset, kw.arg, args_of[key][kw.arg])
    problems += [f"not found: {f}({x})" for f, x in wanted if (f, x) not in done]
    with open(a.report, "w") as f:
        for x in sorted(set(problems)):
            f.write("PROBLEM " + x + "\n")
        for path, line, col, old, new in in_fstrings(edits, parsed, {v: k for k, v in paths.items()}):
            f.write(f"POSITION {path.relative_to(root)}:{line}:{col} {old} -> {new}\n")
    print(f"{len(wanted)} parameters, {sum(map(len, edits.by_file.values()))} edits; {len(set(problems))} problems; report: {a.report}")


STRING_CALLS = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller", "patch"}


def names_bound(text):
    out = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out.add(node.id)
        elif isinstance(node, ast.arg):
            out.add(node.arg)
        elif isinstance(node, ast.alias):
            out.add((node.asname or node.name).split(".")[0])
    return out


def absolute(node, module, path):
    if not node.level:
        return node.module or ""
    base = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    base = base[: len(base) - (node.level - 1)]
    return ".".join(base + ([node.module] if node.module else []))


def in_fstrings(edits, parsed, module_of_path):
    """Find references in f-strings, whose positions Python before 3.12 does not tell, by their number."""
    still, groups = [], collections.defaultdict(set)
    for path, line, col, old, new in edits.mismatch:
        groups[path, old, new].add((line, col))
    for (path, old, new), spots in groups.items():
        tree, lines, _ = parsed[module_of_path[path]]
        for node in ast.walk(tree):
            if not isinstance(node, ast.JoinedStr):
                continue
            inside = {s for s in spots if node.lineno <= s[0] <= node.end_lineno}
            if not inside:
                continue
            hits = []
            for n in range(node.lineno, node.end_lineno + 1):
                for h in re.finditer(rb"(?<![\w\"'])" + old.encode() + rb"(?![\w=\"'])", lines[n - 1]):
                    before = lines[n - 1][: h.start()]
                    if before.count(b"{") > before.count(b"}") and (n, h.start()) not in edits.by_file[path]:
                        hits.append((n, h.start()))
            if len(hits) == len(inside):
                for h in hits:
                    edits.by_file[path][h] = (old, new)
                spots -= inside
        still += [(path, *s, old, new) for s in spots]
    return still


def text_files(root):
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    for n in names:
        p = root / n
        if n and p.is_file() and not p.is_symlink() and p.stat().st_size < 3_000_000:
            yield p


def rename_modules(a, rows, index, edits, frozen):
    """Imports (ast), uses of imported modules (mypy), dotted names and paths (text), git mv."""
    root = Path(a.root).resolve()
    paths = {m: root / p for m, p in index["paths"].items()}
    moves = {old: new for kind, old, new in rows}
    problems = [f"not found: {o}" for o in moves if o not in paths]
    mine = []
    for m, source in index["texts"].items():
        path, lines = paths[m], source.split(b"\n")
        here, local = [], {}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom):
                src = absolute(node, m, path)
                for al in node.names:
                    full = f"{src}.{al.name}"
                    if full in moves:
                        new_src, new_last = moves[full].rsplit(".", 1)
                        if new_src != src:
                            problems.append(f"{path}:{al.lineno}: {full} moves to another package")
                            continue
                        here.append((al.lineno, al.col_offset, al.name, new_last))
                        if al.asname == new_last:
                            problems.append(f"{path}:{al.lineno}: import {new_last} as {new_last}")
                        if al.asname is None:
                            local[al.name] = new_last
        stores = [n for n in ast.walk(ast.parse(source)) if (isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
                  and n.id in local) or (isinstance(n, ast.arg) and n.arg in local)]
        hidden = {getattr(n, "id", None) or n.arg for n in stores}
        problems += [f"{path.relative_to(root)}: {h} is also a variable" for h in hidden]
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Name) and node.id in local and node.id not in hidden:
                here.append((node.lineno, node.col_offset, node.id, local[node.id]))
        for line, col, name, keys, kind in index["refs"][m]:
            hit = [k[2:] for k in (keys or ()) if k.startswith("M:") and k[2:] in moves]
            if hit and name == hit[0].rsplit(".", 1)[1] and (kind == "member" and name not in local or name in hidden):
                here.append((line, col, name, moves[hit[0]].rsplit(".", 1)[1]))
        for spot in sorted(set(here)):
            if frozen(path):
                problems.append(f"FROZEN {path}:{spot[0]} {spot[2]}")
            else:
                edits.add(path, lines, *spot)
        bound = names_bound(source)
        for o, n in local.items():
            if n in bound:
                problems.append(f"{path.relative_to(root)}: {o} -> {n}: the file binds {n} already")
    patterns = []
    for o, n in moves.items():
        po, pn = o.replace(".", "/"), n.replace(".", "/")
        patterns.append((re.compile(rb"(?<![\w.])" + re.escape(o).encode() + rb"(?!\w)"), n.encode()))
        end = rb"(?=/|\b(?![.\w]))" if paths[o].name == "__init__.py" else rb"(?=\.py\b)"
        patterns.append((re.compile(rb"(?<!\w)" + re.escape(po).encode() + end), pn.encode()))
    texts, tops = [], {o.split(".")[0].encode() for o in moves}
    for p in text_files(root):
        if any(fnmatch.fnmatch(p.relative_to(root).as_posix(), f) for f in a.skip_text):
            continue
        data = p.read_bytes()
        if any(t in data for t in tops) and any(r.search(data) for r, _ in patterns):
            if frozen(p):
                problems.append(f"FROZEN {p} (text)")
            else:
                texts.append(p)
    with open(a.report, "w") as f:
        for x in sorted(set(problems)):
            f.write("PROBLEM " + x + "\n")
        parsed = {m: (ast.parse(t), t.split(b"\n"), None) for m, t in index["texts"].items()}
        for path, line, col, old, new in in_fstrings(edits, parsed, {v: k for k, v in paths.items()}):
            f.write(f"POSITION {path.relative_to(root)}:{line}:{col} {old} -> {new}\n")
    print(f"{len(moves)} modules, {sum(map(len, edits.by_file.values()))} edits in {len(edits.by_file)} files, "
          f"{len(texts)} files with dotted names or paths, {len(problems)} problems; report: {a.report}")

    def after():
        for p in texts:
            data = p.read_bytes()
            for r, new in patterns:
                data = r.sub(new, data)
            p.write_bytes(data)
        for o, n in moves.items():
            src = paths[o]
            if src.name == "__init__.py":
                src, dst = src.parent, src.parent.with_name(n.rsplit(".", 1)[1])
            else:
                dst = src.with_name(n.rsplit(".", 1)[1] + ".py")
            subprocess.run(["git", "mv", str(src), str(dst)], cwd=root, check=True)

    return after


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["index", "functions", "parameters", "modules", "both"])
    p.add_argument("table", nargs="?")
    p.add_argument("--root", default=".")
    p.add_argument("--index", default="names.index")
    p.add_argument("--dirs", nargs="+", default=["backend/aitne", "runtime/aitne_train", "runtime/tests", "runtime/benchmarks", "tests", "scripts", "benchmarks", "conftest.py"])
    p.add_argument("--packages", nargs="+", default=["backend/aitne", "runtime/aitne_train"])
    p.add_argument("--skip-text", nargs="*", default=["CHANGELOG.md", "docs/adr/*"])
    p.add_argument("--accept", default=None)
    p.add_argument("--report", default="rename.report")
    p.add_argument("--syntax-only", action="store_true", help="modules without an index of mypy")
    p.add_argument("--apply", action="store_true")
    a = p.parse_args()
    root = Path(a.root).resolve()
    if a.what == "index":
        ix = Index(root, a.dirs, a.packages)
        with open(a.index, "wb") as f:
            pickle.dump(vars(ix), f)
        print(f"{len(ix.paths)} modules, {sum(map(len, ix.refs.values()))} references")
        return 0
    if a.syntax_only:
        index = {"paths": {}, "texts": {}, "refs": collections.defaultdict(list)}
        for f in python_files(root, a.dirs):
            m = module_name(root, f, a.packages)
            index["paths"].setdefault(m, f.relative_to(root).as_posix())
            index["texts"].setdefault(m, f.read_bytes())
    else:
        with open(a.index, "rb") as f:
            index = pickle.load(f)
    stale = [p for m, p in index["paths"].items() if not (root / p).is_file() or (root / p).read_bytes() != index["texts"][m]]
    if stale:
        print(f"Changed since the index was made: {', '.join(stale[:10])}")
        return 1
    patterns = Path(__file__).with_name("frozen.txt").read_text().split()

    def frozen(path):
        rel = path.relative_to(root).as_posix()
        return any(fnmatch.fnmatch(rel, f) for f in patterns)

    rows, edits, after = read_table(a.table), Edits(), None
    if a.what in ("functions", "both"):
        rename_functions(a, [r for r in rows if r[0] not in ("module", "parameter")], index, edits, frozen)
    if a.what == "parameters":
        rename_parameters(a, [r for r in rows if r[0] == "parameter"], index, edits, frozen)
    if a.what in ("modules", "both"):
        a.report += ".modules" if a.what == "both" else ""
        after = rename_modules(a, [r for r in rows if r[0] == "module"], index, edits, frozen)
    if a.apply:
        edits.write()
        if after:
            after()
    return 0


if __name__ == "__main__":
    sys.exit(main())
