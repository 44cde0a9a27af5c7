"""What an editor is told where the server cannot be had: nobody reads its stderr."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import IO

_LENGTH = re.compile(rb"^content-length: *(\d{1,9})\r?$", re.IGNORECASE | re.MULTILINE)
_MOST = 4096
"""Bytes of a message's head."""
_REQUEST_FAILED = -32803


def decline(reason: str) -> None:
    """Answer the first request of a client on stdin, if there is one, with an error."""
    if sys.stdin.isatty():
        return
    with contextlib.suppress(OSError, ValueError):
        request = _message(sys.stdin.buffer)
        if isinstance(request, dict) and "id" in request:
            error = {"code": _REQUEST_FAILED, "message": f"amp-lint: {reason}"}
            answer = {"jsonrpc": "2.0", "id": request["id"], "error": error}
            body = json.dumps(answer).encode()
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            sys.stdout.buffer.flush()


def _message(stream: IO[bytes]) -> object:
    """The first message; None if what is there is none."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.read(1)
        if not byte or len(head) == _MOST:
            return None
        head += byte
    length = _LENGTH.search(head)
    made: object = json.loads(stream.read(int(length[1]))) if length else None
    return made
