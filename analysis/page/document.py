"""The frame of every page: policy, style, script."""

import secrets
from functools import cache
from html import escape
from pathlib import Path

_FOLDER = Path(__file__).parent


def document(title: str, body: str) -> str:
    """A whole HTML document around `body`, which is HTML already.

    Nothing is loaded from anywhere: style and script carry a nonce, and the policy allows nothing else.
    """
    nonce = secrets.token_urlsafe(16)
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f'<style nonce="{nonce}">{_part("page.css")}</style></head>',
            f"<body>{body}",
            f'<script nonce="{nonce}">{_part("page.js")}</script></body></html>',
        )
    )


@cache
def _part(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
