"""HTML page of an executed notebook, without scripts and without addresses of other servers.

Needs nbconvert. It is made in the job; the platform only serves the file.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from typing import Any

from aitne.notebook.cell_output_limits import format_size

MAX_BYTES = 16 << 20
"""Maximum size of a page."""
MAX_HTML_BYTES = 1 << 20
"""Maximum size of the HTML of one output: its check takes about a second for each megabyte."""
MAX_ALL_HTML_BYTES = 4 << 20
# Elements and attributes that show something and do nothing.
_TAGS = (
    "a abbr b blockquote br caption center code col colgroup dd del details div dl dt em figcaption "
    "figure h1 h2 h3 h4 h5 h6 hr i img ins kbd li ol p pre q s samp small span strong sub summary sup "
    "table tbody td tfoot th thead tr tt u ul var"
)
_ATTRIBUTES = (
    "abbr align alt class colspan height href id rowspan scope src start title type valign width"
)
_STYLE = """
:root { color-scheme: light dark }
body { --text: #1c2430; --back: #fff; --soft: #f4f6f8; --line: #d8dee6; --dim: #5d6b7c; --bad: #c22;
  --key: #0a5; --string: #a33; --number: #06c; --comment: #667; margin: 0; padding: 16px;
  background: var(--back); color: var(--text); font: 15px/1.55 system-ui, sans-serif;
  overflow-wrap: break-word }
html:target body { --text: #e3e8ef; --back: #171c23; --soft: #212833; --line: #38424f; --dim: #9aa8b8;
  --bad: #ff7b72; --key: #5fd0a0; --string: #f0a0a0; --number: #79b8ff; --comment: #9aa8b8 }
html:target { color-scheme: dark }
@media (prefers-color-scheme: dark) { body:not(:target) { --text: #e3e8ef; --back: #171c23;
  --soft: #212833; --line: #38424f; --dim: #9aa8b8; --bad: #ff7b72; --key: #5fd0a0; --string: #f0a0a0;
  --number: #79b8ff; --comment: #9aa8b8 } }
body:target { color-scheme: light }
main { max-width: 1100px; margin: 0 auto }
header { border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px; margin-bottom: 16px }
header.failed, header.stopped { border-color: var(--bad) }
pre, code { font: 13px/1.5 ui-monospace, monospace }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere }
.cell { margin: 12px 0 } .prompt { color: var(--dim); font: 12px ui-monospace, monospace }
.anchor-link { display: none }
.input_area { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: 8px }
.output_area { margin: 6px 0; padding-left: 8px; border-left: 2px solid var(--line); overflow-x: auto }
.output_stderr, .output_error { border-color: var(--bad) }
img, svg { max-width: 100%; height: auto; background: #fff }
table { border-collapse: collapse; margin: 6px 0 } th, td { padding: 3px 8px; text-align: right;
  border-bottom: 1px solid var(--line) }
blockquote { margin: 0; padding-left: 12px; border-left: 3px solid var(--line); color: var(--dim) }
.k, .kn, .kd, .kc, .ow { color: var(--key) } .s, .s1, .s2, .sa, .sd, .si { color: var(--string) }
.mi, .mf { color: var(--number) } .c, .c1 { color: var(--comment) }
.ansi-bold { font-weight: bold } .ansi-red-fg, .ansi-red-intense-fg { color: var(--bad) }
.ansi-green-fg, .ansi-green-intense-fg { color: var(--key) }
.ansi-blue-fg, .ansi-cyan-fg, .ansi-blue-intense-fg, .ansi-cyan-intense-fg { color: var(--number) }
.ansi-yellow-fg, .ansi-yellow-intense-fg { color: var(--string) }
"""
# ``#dark`` and ``#light`` in the address choose the colours, because the page runs no script.
_PAGE = """<!doctype html>
<html id="dark" lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body id="light"><main><header class="{state}">{sentence}</header>
{body}</main></body></html>
"""


def render_page(notebook: Any, *, title: str, state: str, sentence: str, folder: str) -> bytes:
    """Render a notebook as an HTML page.

    If the page is larger than ``MAX_BYTES``, a sentence replaces the cells.

    Args:
        notebook: the notebook (``nbformat.NotebookNode``); its outputs are modified.
        title: title of the page.
        state: ``running``, ``completed``, ``failed`` or ``stopped``.
        sentence: text above the cells.
        folder: folder of the notebook, to which paths of pictures in Markdown refer.
    """
    from nbconvert import HTMLExporter

    _replace_outputs(notebook)
    exporter = HTMLExporter(
        template_name="basic",
        sanitize_html=True,
        embed_images=True,
        filters={"clean_html": sanitize_html},
    )
    body, _ = exporter.from_notebook_node(notebook, {"metadata": {"path": folder}})
    page = _fill_page(title, state, sentence, body)
    if len(page) <= MAX_BYTES:
        return page
    larger = f"<p>The page would have {format_size(len(page))}, and at most {format_size(MAX_BYTES)} are "
    return _fill_page(
        title, state, sentence, larger + "shown. Download the notebook to read it.</p>"
    )


def sanitize_html(text: Any) -> str:
    """Sanitize HTML: keep only elements, attributes and URLs that cannot execute code."""
    import bleach

    return str(
        bleach.clean(
            text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text),
            tags=frozenset(_TAGS.split()),
            attributes=_is_allowed_attribute,
            protocols=["http", "https", "mailto", "data"],
            strip=True,
        )
    )


def _is_allowed_attribute(tag: str, name: str, value: str) -> bool:
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    if name == "href":
        return tag == "a" and not value.lower().lstrip().startswith("data:")
    return name in _ATTRIBUTES.split()


def _replace_outputs(notebook: Any) -> None:
    """Replace outputs that the page cannot show unchanged: vector graphics by ``<img>`` elements,
    in which scripts do not run, and large HTML by a sentence."""
    html_bytes = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data")
            if not isinstance(data, Mapping):
                continue
            for kind in ("text/html", "text/markdown"):
                size = len(_join_text(data.get(kind)))
                html_bytes += size
                if size > MAX_HTML_BYTES or html_bytes > MAX_ALL_HTML_BYTES:
                    html_bytes -= size
                    del data[kind]  # type: ignore[attr-defined]  # a NotebookNode is mutable
                    sentence = f"[{format_size(size)} of HTML are not shown on this page]"
                    data.setdefault("text/plain", sentence)  # type: ignore[attr-defined]
            if "image/svg+xml" in data and "image/png" not in data:
                picture = base64.b64encode(_join_text(data["image/svg+xml"]).encode()).decode()
                shown = f'<img alt="" src="data:image/svg+xml;base64,{picture}">'
                data["text/html"] = shown  # type: ignore[index]
                del data["image/svg+xml"]  # type: ignore[attr-defined]


def _join_text(value: Any) -> str:
    return value if isinstance(value, str) else "".join(map(str, value or ()))


def _fill_page(title: str, state: str, sentence: str, body: str) -> bytes:
    page = _PAGE.format(
        title=html.escape(title),
        style=_STYLE,
        state=html.escape(state),
        sentence=html.escape(sentence),
        body=body,
    )
    return page.encode("utf-8", "replace")
