"""A server from its start to its end."""

from __future__ import annotations

import logging

from amp_lint.run.session import CLEAN, LintOptions
from amp_lint.run.worker import take_over_streams
from amp_lint.server.handlers import connect
from amp_lint.server.language_server import GONE, Server


def serve(options: LintOptions) -> int:
    """Serve on stdin and stdout until the client ends it; the exit code."""
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # what matters is told by `tell`
    server = Server(options)
    connect(server)
    calls, answers = take_over_streams()
    try:
        server.start_io(calls, answers)
    finally:
        server.analyst.close()
    return CLEAN if server.is_shut_down else GONE
