"""Is there what a text imports?"""

from __future__ import annotations

import importlib

from amp_lint.verify.obligations import Import
from amp_lint.verify.proof import Failure, Judgement, ProofSettings, Verdict

RAISES = "raises"


def judge(obligation: Import, settings: ProofSettings) -> Judgement:
    """Whether torch, or Python itself, has a module with a name in it, here."""
    module, name = obligation.module, obligation.name
    whole = f"{module}.{name}" if name else module
    try:
        found = importlib.import_module(module)
        if name and not hasattr(found, name):
            importlib.import_module(whole)
    except ImportError as error:
        return _missing(module, whole, error, settings)
    except Exception as error:  # whatever a part of torch raises that does not work here
        return Judgement(Verdict.NOT_COMPARABLE, f"`{whole}` cannot be imported here: {error}")
    return Judgement(Verdict.PROVEN, f"there is `{whole}`")


def _missing(module: str, whole: str, error: ImportError, settings: ProofSettings) -> Judgement:
    """What to make of an import that fails; it may need a package that only others have."""
    root, _, _ = module.partition(".")
    if (error.name or root).partition(".")[0] != root:
        return Judgement(Verdict.NOT_COMPARABLE, f"`{whole}` cannot be imported here: {error}")
    if RAISES in settings.disabled:
        return Judgement(Verdict.PROVEN, "not checked")
    text = f"ImportError: there is no `{whole}`"
    return Judgement(Verdict.REFUTED, text, after=Failure(RAISES, text))
