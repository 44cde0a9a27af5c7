"""A file instead of stdout."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from amp_lint.text import writer


class Output:
    """Collects what is meant for a file, which is written whole at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = io.BytesIO()
        self.stream = io.TextIOWrapper(
            self._data, "utf-8", "backslashreplace", newline="\n", write_through=True
        )
        """What to write to."""

    def close(self) -> list[str]:
        """Write the file; what of the one that was there could not be kept.

        Raises:
            WriteError: the system refuses that; what should be in the file is on stdout.
        """
        try:
            return writer.write(self._path, self._data.getvalue())
        except writer.WriteError:
            sys.stdout.write(self._data.getvalue().decode("utf-8", "backslashreplace"))
            raise
