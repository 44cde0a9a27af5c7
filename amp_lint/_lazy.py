"""libcst, imported when it is first used.

Importing libcst costs several times what the rest of a run on a small repository does, and most
files are dismissed before a parser is needed.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING


class _Lazy(ModuleType):
    """Stands for a module of the same name.

    Not in ``sys.modules``, where `importlib.util.LazyLoader` puts it: the import system drops what
    is raised when it asks such a module for its ``__spec__``, Ctrl-C too, and half a module stays.
    """

    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import libcst as cst
else:
    cst = _Lazy("libcst")

__all__ = ["cst"]
