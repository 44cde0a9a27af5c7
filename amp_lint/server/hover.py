"""What a window over a finding says: the finding, and the short page of its rule."""

from __future__ import annotations

import functools

from amp_lint import registry
from amp_lint.handbook import pages
from amp_lint.report import page
from amp_lint.text.diagnostic import Diagnostic


def text(finding: Diagnostic) -> str:
    """What there is to say, Markdown."""
    return "\n\n---\n\n".join(filter(None, (finding.text, _page(finding.code))))


@functools.cache
def _page(code: str) -> str:
    rule = registry.find(code)
    return page.hover(rule, pages.parse(registry.page(rule))) if rule else ""
