"""Pages that browsers show if a session does not answer, from the proxy (404, 503) and JupyterHub.

Each page is a self-contained file that only links to the portal, because pages on the sessions'
origin have no access to the portal's API.
"""

from __future__ import annotations

import html
from pathlib import Path

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
{head}<title>{title} · {platform}</title>
<style>
:root {{ --ground: #f6f7f9; --card: #fff; --ink: #16181d; --soft: #5c6370; --line: #e2e5ea; --accent: #4c5fd5; --on-accent: #fff }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ground: #121418; --card: #1b1e24; --ink: #eceef2; --soft: #a0a7b4; --line: #2c313a; --accent: #8d9bff; --on-accent: #11131a }}
}}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }}
main {{ width: min(30rem, 100%); padding: 2.5rem; background: var(--card); border: 1px solid var(--line); border-radius: 16px }}
svg {{ display: block; width: 48px; height: 48px; color: var(--accent) }}
h1 {{ margin: 1.25rem 0 .5rem; font-size: 1.375rem; line-height: 1.3; letter-spacing: -.01em; text-wrap: balance }}
p {{ margin: 0 0 1rem; color: var(--soft); overflow-wrap: anywhere }}
a {{ display: inline-block; margin-top: .5rem; padding: .625rem 1.125rem; border-radius: 8px; background: var(--accent); color: var(--on-accent);
  font-weight: 600; text-decoration: none }}
a:hover {{ filter: brightness(1.08) }}
a:focus-visible {{ outline: 3px solid var(--accent); outline-offset: 3px }}
small {{ display: block; margin-top: 1.75rem; color: var(--soft); font-size: .8125rem }}
</style>
</head>
<body>
<main>
<svg viewBox="0 0 48 48" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" aria-hidden="true">
<circle cx="24" cy="24" r="11"/><path d="M5 33C9 39 31 33 39 23S43 8 38 9"/></svg>
<h1>{title}</h1>
<p>{text}</p>
<a href="{link}">Go to the portal</a>
<small>{small}</small>
</main>
</body>
</html>
"""


def write_pages(folder: Path, *, platform: str, portal_url: str) -> None:
    """Write the HTML pages that browsers get if a session does not answer: the proxy's error pages
    (404, 503 and others) to ``folder``, and JupyterHub's templates to ``folder/hub``. Existing
    files are replaced.

    ``platform`` is the platform's name, shown in the title and at the end of each page.
    ``portal_url`` is the target of the link to the portal.
    """
    (folder / "hub").mkdir(parents=True, exist_ok=True)
    # JupyterHub would interpret braces.
    shown = html.escape(platform).replace("{", "&#123;")
    link = html.escape(portal_url).replace("{", "%7B")

    def write_page(name: str, title: str, text: str, *, head: str = "", code: str = "") -> None:
        page = _PAGE.format(
            platform=shown,
            link=link,
            title=title,
            text=text,
            head=head,
            small=f"{shown}{code}",
        )
        (folder / name).write_text(page, encoding="utf-8")

    write_page(
        "404.html",
        "This session is not running",
        "It has ended or does not exist. Files that you saved are not affected; the portal lists "
        "your sessions and starts new ones.",
        code=" · 404",
    )
    for name, code in (("503.html", " · 503"), ("error.html", "")):
        write_page(
            name,
            "This session does not answer",
            "It is starting, ending, or very busy. Reload this page in a moment; the portal shows "
            "the state of the session.",
            code=code,
        )
    # JupyterHub fills in the braces and escapes what it puts there.
    write_page(
        "hub/error.html",
        "{{ status_message | default('The request failed') }}",
        "{{ message | default('') }}",
        code=" · {{ status_code }}",
    )
    for name in ("home", "not_running", "spawn", "spawn_pending", "stop_pending", "logout"):
        write_page(
            f"hub/{name}.html",
            "Your sessions are in the portal",
            "You are redirected there now.",
            head=f'<meta http-equiv="refresh" content="0; url={link}">\n',
        )
