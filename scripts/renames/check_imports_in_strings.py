import re, sys, importlib, subprocess
from pathlib import Path
bad = 0
pat = re.compile(r"from\s+(aitne(?:_train|_devcluster|_apptainer)?(?:\.\w+)*)\s+import\s+\(?([\w, ]+)")
pat2 = re.compile(r"\b(aitne(?:_train|_devcluster|_apptainer)?(?:\.\w+){1,6})")
files = [f for f in subprocess.run(["git","ls-files"],capture_output=True,text=True).stdout.split() if not f.startswith(("docs/adr","frontend/","CHANGELOG")) ]
cache={}
def mod(name):
    if name not in cache:
        try: cache[name]=importlib.import_module(name)
        except Exception as e: cache[name]=None
    return cache[name]
def resolves(dotted):
    parts=dotted.split(".")
    for i in range(len(parts),0,-1):
        m=mod(".".join(parts[:i]))
        if m is not None:
            o=m
            for p in parts[i:]:
                if not hasattr(o,p): return False, i
                o=getattr(o,p)
            return True,i
    return False,0
for f in files:
    p=Path(f)
    try: text=p.read_text()
    except Exception: continue
    for n,line in enumerate(text.splitlines(),1):
        for m in pat.finditer(line):
            for name in re.split(r"[,\s]+", re.sub(r"\s+as\s+\w+","",m[2]).strip()):
                if name in ("","as"): continue
                if not resolves(m[1]+"."+name)[0]: print(f"{f}:{n}: from {m[1]} import {name}")
        if p.suffix in (".py",".md",".toml",".yml",".yaml",".sh",".ipynb",".j2",".service",".cfg",""):
            for m in pat2.finditer(line):
                d=m[1]
                if d.endswith((".toml",".service",".log",".db",".json",".py",".timer",".sock",".conf",".pub",".jsonl")): continue
                ok,i=resolves(d)
                if not ok and i>=1 and len(d.split("."))-i>=1 and (i>1 or d.split('.')[1] in ()): print(f"{f}:{n}: {d}")
