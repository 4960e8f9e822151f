"""A picture of a tree of switches."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from aitne_train.topology.hostlist import compress_hostlist
from aitne_train.topology.switch_tree import TopologyTree

_WIDTH, _HEIGHT, _ROW, _MARGIN = 150, 44, 96, 16
_MOST_TEXT = 20
_STYLE = """
text { font: 12px sans-serif; fill: #1a1b1e; text-anchor: middle }
rect { fill: #fff; stroke: #495057; rx: 6 }
line { stroke: #868e96 }
@media (prefers-color-scheme: dark) {
  text { fill: #f1f3f5 }
  rect { fill: #25262b; stroke: #adb5bd }
}
"""


def draw_tree(
    tree: TopologyTree, labels: Mapping[str, str] | None = None, title: str | None = None
) -> str:
    """Return an SVG document with the switches as boxes, the roots at the top, and the nodes of each
    leaf. Long texts are cut; their tooltips have all of them.

    Args:
        tree: the switches.
        labels: text about the nodes of each leaf; None: a host list.
        title: title of the picture; None: the numbers of switches and nodes.
    """
    columns, depth = _place_switches(tree)
    width = 2 * _MARGIN + _WIDTH * (max(columns.values()) + 1)
    height = 2 * _MARGIN + _ROW * (depth - 1) + _HEIGHT
    shapes = []
    for name, parent in tree.parents.items():
        (x1, y1), (x2, y2) = (
            _place_switch(tree, columns, parent),
            _place_switch(tree, columns, name),
        )
        shapes.append(
            f'<line x1="{x1:g}" y1="{y1 + _HEIGHT / 2:g}" x2="{x2:g}" y2="{y2 - _HEIGHT / 2:g}"/>'
        )
    for name, switch in tree.switches.items():
        x, y = _place_switch(tree, columns, name)
        nodes = labels.get(name, "") if labels is not None else compress_hostlist(switch.nodes)
        tooltip = f"{name}: {nodes}" if nodes else name
        shapes.append(
            f'<g><title>{escape(tooltip)}</title><rect x="{x - _WIDTH / 2 + 4:g}" y="{y - _HEIGHT / 2:g}" '
            f'width="{_WIDTH - 8}" height="{_HEIGHT}"/>'
            f'<text x="{x:g}" y="{y - 3 if nodes else y + 4:g}">{escape(_shorten_text(name))}</text>'
            + (
                f'<text x="{x:g}" y="{y + 14:g}">{escape(_shorten_text(nodes))}</text>'
                if nodes
                else ""
            )
            + "</g>"
        )
    label = escape(
        title or f"{len(tree.switches)} switches and {len(tree.leaf_of)} nodes", {'"': "&quot;"}
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">'
        f"<title>{label}</title><style>{_STYLE}</style>{''.join(shapes)}</svg>\n"
    )


def _place_switches(tree: TopologyTree) -> tuple[dict[str, float], int]:
    """Return the column of each switch, in the middle above the switches below it, and the number
    of levels."""
    order = list(tree.roots)
    for name in order:
        order += tree.switches[name].switches
    leaves = list(reversed(tree.roots))
    columns: dict[str, float] = {}
    while leaves:
        name = leaves.pop()
        below = tree.switches[name].switches
        if not below:
            columns[name] = len(columns)
        leaves += reversed(below)
    for name in reversed(order):
        below = tree.switches[name].switches
        if below:
            columns[name] = (columns[below[0]] + columns[below[-1]]) / 2
    return columns, max(len(tree.find_path(name)) for name in order)


def _place_switch(tree: TopologyTree, columns: dict[str, float], name: str) -> tuple[float, float]:
    x = _MARGIN + _WIDTH * (columns[name] + 0.5)
    return x, _MARGIN + _HEIGHT / 2 + _ROW * (len(tree.find_path(name)) - 1)


def _shorten_text(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
