"""The page itself: skeleton, styles, scripts and packed data as one HTML text that loads nothing else.

The policy in its head lets two scripts and one style run, those whose digests it names, and no connection, frame, form
or plug-in; and it forbids every script to turn text into markup (trusted types). Data stands in elements that are no
scripts to a browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from kbverified.page import vendor
from kbverified.page.bundle import bundle

ASSETS = Path(__file__).parent / "assets"
ENTRY = "main"
_PLACE = re.compile(r"@@(\w+)@@")
_ENDS_SCRIPT = re.compile(r"</(?:script|style)|<!--", re.I)


def document(main: str, sweep: str, blocks: Iterable[str]) -> str:
    """The page. ``main``, ``sweep`` and ``blocks`` are as packing.pack gives them; block i is that of problem i.

    Raises ValueError for an asset that would end its own element, BundleError and VendorError.
    """
    style, charts = ("uPlot.min.css", "uPlot.iife.min.js")
    fetched = {name: vendor.verified(name) if vendor.at_hand() else "" for name in (style, charts)}
    parts = {
        "style": _inline("style", fetched[style] + (ASSETS / "page.css").read_text(encoding="utf-8")),
        "vendor": _inline("vendor", fetched[charts]),
        "script": _inline("script", bundle(ASSETS, ENTRY)),
    }
    parts["policy"] = policy(parts["style"], [parts["vendor"], parts["script"]])
    packed = [("main-data", main), ("sweep-data", sweep), *((f"block-{i}", text) for i, text in enumerate(blocks))]
    parts["data"] = "\n".join(f'<script type="text/plain" id="{name}">{text}</script>' for name, text in packed)
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: parts[place[1]], template)


def policy(style: str, scripts: Iterable[str]) -> str:
    """The Content-Security-Policy under which the page runs."""
    allowed = " ".join(_digest(script) for script in scripts)
    rules = (
        "default-src 'none'",
        f"script-src {allowed}",
        f"style-src {_digest(style)}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _inline(what: str, text: str) -> str:
    if found := _ENDS_SCRIPT.search(text):
        raise ValueError(f"the page's {what} has {found[0]!r} in it, which would end the element that it stands in")
    return text
