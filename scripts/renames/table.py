"""Make runtime.tsv of the inventory (all defs and modules) and the decisions."""
import ast, sys
from pathlib import Path
root=Path(sys.argv[1]); pkg=sys.argv[2]; dec=Path(sys.argv[3]); mods=Path(sys.argv[4]); out=Path(sys.argv[5])
base=root/pkg; P=base.name
D={}; m=None
for line in dec.read_text().splitlines():
    if line.startswith('#') or not line.strip(): continue
    if line.startswith('['): m=line.strip('[]'); continue
    o,n=line.split(); 
    if o!=n: D[f"{P}.{m}.{o}"]=n
M={f"{P}.{a}":f"{P}.{b}" for a,b in (l.split() for l in mods.read_text().splitlines() if l.strip())}
rows=[]; used=set()
def why(n,name,cls):
    deco=[ast.unparse(d) for d in n.decorator_list]
    if name.startswith('__'): return "special method"
    if any('property' in d for d in deco): return "property, a noun"
    if name in ('main','run'): return "program or command"
    if name.startswith(('on_','_on_')): return "handler of an event"
    return "says what it does"
for p in sorted(base.rglob('*.py')):
    parts=list(p.relative_to(base).with_suffix('').parts)
    if parts[-1]=='__init__': parts.pop()
    mod='.'.join([P,*parts])
    rows.append(('module',mod,M.get(mod,'stays'),'after its main class or subject' if mod in M else 'named after its subject'))
    def walk(n,q,cls):
        for c in ast.iter_child_nodes(n):
            if isinstance(c,(ast.FunctionDef,ast.AsyncFunctionDef)):
                full=f"{mod}.{q}{c.name}"; used.add(full)
                kind='method' if cls else ('local' if q and not cls else 'function')
                rows.append((kind,full,D.get(full,'stays'),'verb and object' if full in D else why(c,c.name,cls)))
                walk(c,q+c.name+'.',False)
            elif isinstance(c,ast.ClassDef): walk(c,q+c.name+'.',True)
            else: walk(c,q,cls)
    walk(ast.parse(p.read_text()),'',False)
seen=set(); final=[]
for r in rows:
    if r[:2] in seen: continue
    seen.add(r[:2]); final.append(r)
out.write_text('# kind\told\tnew\treason\n'+''.join('\t'.join(r)+'\n' for r in final))
for k in D:
    if k not in used: print('no such def:',k)
print(len(final),'rows',sum(r[2]!='stays' for r in final),'renamed')
