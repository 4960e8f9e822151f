import re, subprocess, ast
files=[f for f in subprocess.run(["git","ls-files","*.py"],capture_output=True,text=True).stdout.split()]
old={}
for l in open('scripts/renames/runtime.tsv'):
    c=l.rstrip("\n").split("\t")
    if len(c)>=3 and c[0] in("function","method") and c[2]!="stays":
        old.setdefault(c[1].split(".")[-1],[]).append((c[1],c[2]))
defined=set()
for f in files:
    for n in ast.walk(ast.parse(open(f).read())):
        if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef)): defined.add(n.name)
        elif isinstance(n,ast.AnnAssign) and isinstance(n.target,ast.Name): defined.add(n.target.id)
        elif isinstance(n,ast.Attribute) and isinstance(n.ctx,ast.Store): defined.add(n.attr)
STD=set("get set put pop read write close open start stop send receive recv join run wait take copy update add remove clear index items keys values split strip format count find next append extend result submit match search group shape size name names dtype device group total path text lines code sum end begin poll fileno seek tell flush".split())
for f in files:
    src=open(f).read()
    for n in ast.walk(ast.parse(src)):
        if isinstance(n,ast.Attribute) and n.attr in old and n.attr not in STD and f.startswith(("runtime/","backend/aitne/notebook","backend/aitne/agent","tests/","benchmarks/","examples/")):
            print(f"{f}:{n.lineno}: {ast.unparse(n)[:60]}  {'(defined elsewhere)' if n.attr in defined else 'UNDEFINED'}")
