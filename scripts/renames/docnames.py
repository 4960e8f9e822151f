"""Old names in docstrings and comments (in double backquotes): python docnames.py NAMES INDEX ROOT (after the renames)."""
import ast, collections, io, pickle, re, sys, tokenize
from pathlib import Path
names, index, root = Path(sys.argv[1]), pickle.load(open(sys.argv[2], "rb")), Path(sys.argv[3])
ren = {}
for l in names.read_text().splitlines():
    k, n = l.split("\t"); ren[k] = n
def short(k): return k.rsplit(":", 1)[1] if k.startswith("local:") else k.rsplit(".", 1)[1]
kept = 0
for m, rel in index["paths"].items():
    p = root / rel
    if not p.is_file(): continue
    used = collections.defaultdict(set)
    for k, n in ren.items():
        if k.startswith(m + "."): used[short(k)].add((k, n))
    for _, _, name, keys, _ in index["refs"][m]:
        for k in keys or ():
            if k in ren: used[name].add((k, ren[k]))
    if not used: continue
    text = p.read_text()
    tree = ast.parse(text)
    bound = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)} | {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))} | {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    spans = set()
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type == tokenize.COMMENT or (t.type == tokenize.STRING and t.string.lstrip("rRbBuU").startswith('"""')):
            spans |= set(range(t.start[0], t.end[0] + 1))
    lines = text.split("\n")
    changed = False
    for i, line in enumerate(lines, 1):
        if i not in spans: continue
        def sub(h):
            global kept
            whole = h.group(1); head, _, last = whole.rpartition(".")
            args = ""
            base = re.match(r"\w+", last)
            if not base: return h.group(0)
            tail = last[base.end():]; last = base.group(0)
            cand = used.get(last)
            if not cand: return h.group(0)
            if head:
                cand = {c for c in cand if ("." + c[0]).rpartition(".")[0].endswith("." + head)}
            news = {n for _, n in cand}
            if len(news) != 1 or (not head and last in bound):
                if cand: print(f"{rel}:{i}: {whole} -> {sorted({n for _, n in cand})}: {line.strip()}")
                return h.group(0)
            return "``" + (head + "." if head else "") + news.pop() + tail + "``"
        new = re.sub(r"``([\w.]+(?:\([^`]*\))?)``", sub, line)
        if new != line:
            lines[i - 1] = new; changed = True
    if changed: p.write_text("\n".join(lines)); print("edited", rel)
