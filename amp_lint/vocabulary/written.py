"""How the calls of a training step look in text, for who has no tree yet, or no origin of a name.

Helpers are named after what they do, so parts of names count as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from amp_lint.vocabulary import amp
from amp_lint.vocabulary.meaning import Kind, Role
from amp_lint.vocabulary.table import methods, words

UNSCALE, CLIP, REGION = "unscale", "clip_grad", "autocast"
"""In the names of what unscales, what clips, and what opens regions."""
SCALER = "scaler"
"""At the end of the name of a scaler, whatever its case."""
BACKWARD = words(Kind.BACKWARD)
STEPS = words(Kind.STEP)
UPDATES = words(Kind.UPDATE)
MAKERS = words(Role.SCALER)
PROTOCOL = methods(Role.SCALER)
"""What scales a loss, and what is done with a scaler in a step."""
_MEASURES = words(Kind.CLIP) - {word for word in words(Kind.CLIP) if CLIP in word}


def any_of(words: Iterable[str]) -> str:
    """A pattern for one of some words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


_NAMED = any_of({UNSCALE, CLIP, *_MEASURES})
EVENTS = (
    rf"\.(?:{any_of(BACKWARD | STEPS)})\(|{_NAMED}|(?:{any_of(MAKERS)})\("
    rf"|{SCALER}\.(?:{any_of(PROTOCOL)})\b"
    r"|\.grad(?:\.data)?(?:\.\w+_\(|\s*[*/+-]?=(?!=))"
)
"""What is done in a training step."""
HALVES = frozenset({"bfloat16", "float16", "half"})
"""What half dtypes are called, after the module."""
MATTERS = rf"{EVENTS}|{REGION}|\.grad\b|\breturn[ \t]+\w+\.(?:{any_of(HALVES)})\b"
"""What a function has that may say something about a training step elsewhere."""
TRAINS = rf"{any_of(BACKWARD)}|{_NAMED}|{REGION}|{any_of(MAKERS)}|{SCALER}\b"
"""What a file has that may take part in a training step in mixed precision."""


def names_event(name: str) -> bool:
    """Whether what is called so does something in a training step, or makes a scaler."""
    done = name in BACKWARD or name.startswith(CLIP) or UNSCALE in name or name in _MEASURES
    return done or name.endswith(tuple(MAKERS))


def is_about_scaler(name: str) -> bool:
    """Whether something is called after a scaler's class."""
    return any(maker in name for maker in MAKERS)


def reads_scale(attribute: str) -> bool:
    """Whether an attribute of a scaler is its scale, or gives it."""
    return attribute in amp.SCALE_ATTRIBUTES or attribute in words(Role.SCALE)
