"""Finds mixed-precision (AMP) bugs in PyTorch training code and fixes them.

The names of the Python API are imported when they are asked for: `amp_lint.api` says what they are.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amp_lint.api import Fixed as Fixed
    from amp_lint.api import LintError as LintError
    from amp_lint.api import Project as Project
    from amp_lint.api import Settings as Settings
    from amp_lint.api import check as check
    from amp_lint.api import fix as fix
    from amp_lint.report.data import SCHEMA as SCHEMA
    from amp_lint.report.data import Diagnostic as Diagnostic
    from amp_lint.run.choice import ConfigError as ConfigError
    from amp_lint.runtime.watch import watch as watch

__version__ = "0.1.0"

_HOMES = {
    **dict.fromkeys(("Fixed", "LintError", "Project", "Settings", "check", "fix"), "api"),
    **dict.fromkeys(("SCHEMA", "Diagnostic"), "report.data"),
    "ConfigError": "run.choice",
    "watch": "runtime.watch",
}
"""The module of each name; that of ``watch`` needs torch."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
