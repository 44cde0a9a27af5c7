"""Finds mixed-precision (AMP) bugs in PyTorch training code and fixes them."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amp_lint.runtime.watch import watch as watch

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """``watch``, which needs torch and is imported when it is asked for."""
    if name != "watch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from amp_lint.runtime.watch import watch

    return watch
