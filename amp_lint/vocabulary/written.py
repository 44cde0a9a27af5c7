"""How the calls of a training step look in text, for who has no tree yet, or no origin of a name.

Helpers are named after what they do, so parts of names count as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amp_lint.vocabulary import amp
from amp_lint.vocabulary.identifiers import core, identifiers
from amp_lint.vocabulary.meaning import Kind, Part, Role
from amp_lint.vocabulary.modules import LOSSES
from amp_lint.vocabulary.table import METHODS, methods, words
from amp_lint.vocabulary.training import OPTIMIZER_CLASSES


def any_of(words: Iterable[str]) -> str:
    """A pattern for one of some words, the longest first."""
    return "|".join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))


@dataclass(frozen=True)
class Look:
    """Patterns, each with parts of which it has one wherever it matches.

    The parts are looked for first: 2 GB/s, where alternatives are searched at 20 MB/s. Before that,
    what is an identifier in them, among those of the text: they are a tenth of it.
    """

    alternatives: tuple[tuple[str, frozenset[str]], ...]

    @property
    def pattern(self) -> str:
        """What matches where one of the patterns does."""
        return "|".join(pattern for pattern, _ in self.alternatives)

    def found_in(self, data: bytes) -> bool:
        """Whether a pattern matches somewhere in a text."""
        names = identifiers(data)
        return any(each.matches(data, names) for each in self._compiled)

    def places(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where a pattern matches in a text, and where that ends, in order."""
        pattern = re.compile(self.pattern.encode())
        return (match.span() for match in pattern.finditer(data))

    @functools.cached_property
    def _compiled(self) -> list[_Alternative]:
        return [_alternative(*each) for each in self.alternatives]

    def __or__(self, other: Look) -> Look:
        """A match of either."""
        return Look((*self.alternatives, *other.alternatives))


class _Alternative:
    """One pattern, and how it is found soon."""

    def __init__(self, pattern: str, parts: frozenset[str]) -> None:
        self._pattern = re.compile(pattern.encode())
        self._parts = [(core(part), part.encode()) for part in _shortest(parts)]
        self._last: tuple[bytes, bool] | None = None
        """The text that was looked at last, as several looks have the same pattern."""
        self._is_of_lines = parts != {""} and not _CROSSES_LINES.search(pattern)

    def matches(self, data: bytes, names: bytes) -> bool:
        """Whether the pattern matches somewhere in a text; ``names`` are its identifiers."""
        last = self._last
        if last is None or last[0] is not data:
            last = self._last = data, self._find(data, names)
        return last[1]

    def _find(self, data: bytes, names: bytes) -> bool:
        there = [part for core, part in self._parts if core in names and part in data]
        if not self._is_of_lines:
            return bool(there) and self._pattern.search(data) is not None
        return any(
            self._pattern.search(data, *line) for part in there for line in lines(data, part)
        )


_alternative = functools.cache(_Alternative)


_CROSSES_LINES = re.compile(r"\\[ASWDn]|\\s|\[\^(?![^\]]*\\n)")
"""In a pattern that may match over the end of a line, or looks at more than one."""


def lines(data: bytes, part: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that have some part."""
    found = data.find(part)
    while found >= 0:
        end = data.find(b"\n", found)
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, found) + 1, end
        found = data.find(part, end)


def _shortest(parts: frozenset[str]) -> list[str]:
    """The parts that have no other one in them: where one of all is, one of these is."""
    return [part for part in sorted(parts) if not any(o in part for o in parts - {part})]


def pattern(text: str, *parts: str) -> Look:
    """A pattern that matches only where one of ``parts`` is, if there are any."""
    return Look(((text, frozenset(parts or [""])),))


def look(words: Iterable[str], before: str = "", after: str = "") -> Look:
    """One of some words, between two patterns."""
    words = frozenset(words)
    wrapped = f"(?:{any_of(words)})" if before or after else any_of(words)
    return pattern(f"{before}{wrapped}{after}", *words)


UNSCALE, CLIP, REGION = "unscale", "clip_grad", "autocast"
"""In the names of what unscales, what clips, and what opens regions."""
SCALER = "scaler"
"""At the end of the name of a scaler, whatever its case."""
SCALED_LOSS = r"loss_?scal|scale_?loss|grad(ient)?_?scal"
"""In names that are about the scaling of a loss, whatever else is scaled, in small letters."""
_SCALE = re.compile(rf"{SCALER}|{SCALED_LOSS}|{UNSCALE}|(?:^|_)scale$", re.IGNORECASE)
BACKWARD = words(Kind.BACKWARD)
STEPS = words(Kind.STEP)
UPDATES = words(Kind.UPDATE)
MAKERS = words(Role.SCALER)
PROTOCOL = methods(Role.SCALER)
"""What scales a loss, and what is done with a scaler in a step."""
_SCALING = words(Role.SCALED_LOSS, Kind.UNSCALE)
SCALES = (
    pattern(rf"(?i:{SCALER})")
    | look(_SCALING & METHODS, r"\.\s*", r"\b")
    | look(_SCALING - METHODS)
)
"""What shows that there is a scaler: a name, its class, or a method that only scalers have."""
SCALED = look(_SCALING & METHODS, r"\.\s*", r"\s*\(") | look(MAKERS, after=r"\(")
"""Where a scaler is made or asked: whether it is on, and what it steps, its callers may tell."""
TAKES_STEP = pattern(rf"{SCALER}\(\s*\w", f"{SCALER}(")
"""How a scaler is called that takes a whole step: ``loss_scaler(loss, optimizer)``."""
STATES = amp.STATE_DICT.words | amp.LOAD_STATE_DICT.words
"""What gives or takes the state of an optimizer or a scaler."""
_STEPPED = re.compile(rf"optim|(?:^|_)opt|sgd|adam|{SCALER}", re.IGNORECASE)
_MEASURES = words(Kind.CLIP) - {word for word in words(Kind.CLIP) if CLIP in word}


RUN_BACK = look(BACKWARD, r"\.", r"\s*\(")
"""Where backward runs: of what, its callers may tell."""
_NAMED = look({UNSCALE, CLIP, *_MEASURES})
EVENTS = (
    look(BACKWARD | STEPS, r"\.", r"\(")
    | _NAMED
    | look(MAKERS, after=r"\(")
    | pattern(rf"{SCALER}\.(?:{any_of(PROTOCOL)})\b", f"{SCALER}.")
    | pattern(r"\.grad(?:\.data)?(?:\.\w+_\(|\s*[*/+-]?=(?!=))", ".grad")
)
"""What is done in a training step."""
_REGISTRY = pattern(
    rf"\A(?=[\s\S]*torch\.save\()(?=[\s\S]*\.(?:{any_of(STATES)})\()"
    r"[\s\S]*?\bin\s+self\.\w{1,40}\.items\(\)",
    "torch.save(",
)
"""A file that saves what is in a dict of its own, be it states."""
_OWNER = rf"(?:opt|sgd|adam|{SCALER})\w{{0,20}}(?:['\"]\])?(?:\[\w{{1,20}}\])?\."
KEPT = look(STATES, _OWNER, r"\(") | _REGISTRY
"""How the state of an optimizer or a scaler is saved or loaded."""
STATE_OF = re.compile(rf"(?<![\w.])(\w+)\.(\w+)\.(?:{any_of(amp.STATE_DICT.words)})\(".encode())
"""How the state is asked for of what an object has, by the names of both."""
_OF_SCALER = rf"(?i:{SCALER})\w{{0,20}}\."
STEP_ALONE = pattern(
    rf"\A(?![\s\S]*{_OF_SCALER}(?:{any_of(UPDATES)})\()"
    rf"[\s\S]*{_OF_SCALER}(?:{any_of(STEPS)})\(",
    *(f".{step}(" for step in STEPS),
)
"""A file that steps through a scaler, and never updates one."""
_SCHEDULES = words(Kind.SCHEDULE)
SCHEDULED = pattern(
    rf"sched\w{{0,20}}\.(?:{any_of(_SCHEDULES)})\(", *(f".{step}(" for step in _SCHEDULES)
)
"""How a scheduler steps."""
_MODEL = r"(?i:model|module|net|encoder|decoder|backbone|pipe(?:line)?)\d?"
HALVED = (
    pattern(rf"{_MODEL}\.half\(\)", ".half()")
    | pattern(rf"\bconvert_weights\({_MODEL}\)", "convert_weights(")
    | pattern(
        rf"{_MODEL}\.to\([^()\n]{{0,80}}\btorch\.(?:float16|half)\)",
        "torch.float16)",
        "torch.half)",
    )
)
"""How something that is called like a model is cast to float16."""
NOT_FINITE = frozenset({"isfinite", "isinf", "isnan"})
"""What asks a tensor whether it is inf or NaN."""
ANOMALY = frozenset({"detect_anomaly", "set_detect_anomaly"})
"""What has torch look for NaN in backward."""
REFUSING = (
    look(words(Kind.CLIP, part=Part.STRICT))
    | look(ANOMALY)
    | look(NOT_FINITE, after=r"\([^\n]{0,60}\.grad\b")
    | pattern(rf"\.grad\b[^\n]{{0,20}}\.(?:{any_of(NOT_FINITE)})\(", ".grad")
)
"""What ends a run where gradients are inf or NaN, or may: a clip, anomaly mode, a test of them."""
UPDATED = pattern(rf"\b(?:{any_of(UPDATES)})\b(?!\s*\([^()\[\]{{}}]*,\s*[^\s)])", *UPDATES)
"""The update of a scaler, which takes one argument at most: a dict's or a cache's may take more."""
_FLAG = rf"amp|fp16|bf16|half|bfloat16|float16|{REGION}|mixed[-_]?precision"
_MIXED = rf"_?(?:{_FLAG})(?![a-z])"
AMP_OPTION = rf"(?i)(?<![a-z])(?:use|enable|no|disable)?{_MIXED}"
"""What options of mixed precision are called."""
AMP_FLAG = pattern(rf"(?i:['\"]--(?:(?:use|enable|no|disable)[-_]?)?(?:{_FLAG})['\"])", "--")
"""An option of mixed precision, where it is added."""
PRECISION_OPTION = r"(?:\w{1,20}_)?precision"
"""What options are called by which a precision is chosen."""
PRECISION_FLAG = pattern(r"['\"]--(?:\w{1,20}[-_])?precision['\"]", "precision")
"""One of them, where it is added."""
DECIDES = rf"(?i)amp|16|half|precision|scal|dtype|{REGION}|mixed"
"""In what a test asks that may decide about mixed precision."""
AMP_SWITCH = rf"(?i)(?<![a-z])(?:use|enable)?{_MIXED}"
"""The same, if true stands for on."""
SCALER_SWITCH = r"(?i:(?:use|enable|with)_?(?:grad(?:ient)?_?|loss_?)?scal(?:er|ing))"
"""What options are called that turn a scaler on, and no region."""
HALVES = frozenset({"bfloat16", "float16", "half"})
"""What half dtypes are called, after the module."""
LIKELIHOODS = frozenset(
    {"cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "log_softmax", "LogSoftmax",
     "kl_div", "KLDivLoss", "logsumexp"}
) | {name.rpartition(".")[2] for name in LOSSES}  # fmt: skip
"""What functions and classes are called that compute logarithms of probabilities."""
KEEPS_BUFFER = frozenset({"register_buffer"})
"""The method by which a module gets a buffer."""
CASTS_MODEL = pattern(
    r"\.(?:half|bfloat16)\(\s?\)|\.(?:to|type)\([^()]{0,60}(?:half|float16|(?<![.\w])dtype)", "("
)
"""A cast of something that may be a model."""
ABOUT_GRADIENTS = re.compile(r"grad|scale", re.IGNORECASE)
"""In the names of what may be scaled like the gradients that it is added to."""
_PREPARING = words(Role.ACCELERATOR, Role.FABRIC)
"""The classes whose objects prepare models and optimizers."""
_PREPARED = words(Role.PREPARED) - {"optimizers"}  # these are no more than asked for
_DERIVED = words(Role.LIGHTNING, Role.TRAINER)
"""The classes whose heirs train by methods that they have from them."""
_NAMED_HALF = look(HALVES, r"\b(?:torch|th)\.", r"\b")
REFUSED = frozenset({"BCELoss", "binary_cross_entropy"})
"""The losses that autocast refuses."""
MATTERS = (
    EVENTS
    | look({REGION})
    | pattern(r"\.grad\b", ".grad")
    | KEPT
    | _NAMED_HALF
    | pattern(r"\.half\(\)", ".half()")
    | look(REFUSED)
    | look(OPTIMIZER_CLASSES, r"\b", r"\(")
    | look(_PREPARING, r"\b", r"\(")
    | look(_PREPARED, r"\.", r"\(\s*[^)\s]")
    | look(_DERIVED, r"\bclass \w{1,80}\([^()\n]{0,200}\b", r"\s*[,)]")
    | pattern(r"\breturn (?:torch\.)?device\b", "return torch.device", "return device")
)
"""What a function has that may say something about a training step elsewhere."""
NO_TEXT = r"(?![ \t]+(?!(?:and|as|async|else|for|from|if|import|in|is|not|or)\b)[a-z])"
"""Behind an identifier: what follows is no word of a sentence, as in a message."""
TRAINS = (
    look(BACKWARD, after=NO_TEXT)
    | _NAMED
    | look({REGION})
    | look(MAKERS)
    | look({SCALER}, after=r"\b")
    | KEPT
    | HALVED
)
"""What a file has that may take part in a training step in mixed precision."""


USES_AMP = look({REGION}) | look(MAKERS)
"""What a file has that sets up mixed precision itself."""

RUNS_MODELS = look(words(Role.ACCELERATOR, Role.TRAINER_OF_LIGHTNING), r"\b", r"\(")
"""What has a framework run models, in a precision that it is told."""
SAYS_PRECISION = look({"precision"})
PATCHES = pattern(r"\bamp\.initialize\(", "amp.initialize(")
"""What has apex run models in half precision."""

LOWERS = (
    look({REGION, "HalfTensor", "fp16", "bf16", "mixed_precision"})
    | look({"accelerat", "apex", "deepspeed", "fabric", "lightning"})
    | look(HALVES, r"\btorch\.", r"\b")
    | look(HALVES - {"float16"}, r"\.", r"\s*\(")
    | pattern(r"getattr\(\s*torch\b", "getattr")
)
"""What some file of a program has that may run anything in half precision."""


def names_event(name: str) -> bool:
    """Whether what is called so does something in a training step, or makes what does."""
    done = name in BACKWARD or name.startswith(CLIP) or UNSCALE in name or name in _MEASURES
    return done or name in _PREPARING or name.endswith(tuple(MAKERS))


def prepares(method: str) -> bool:
    """Whether a method that gets something may have a framework prepare it."""
    return method in _PREPARED


def trains_heirs(base: str) -> bool:
    """Whether what is derived from a class called so trains by its methods."""
    return base in _DERIVED


def is_stepped(name: str) -> bool:
    """Whether something is called like an optimizer or a scaler."""
    return _STEPPED.search(name) is not None


def keeps_state(method: str, owner: str) -> bool:
    """Whether a method of something called so gives or takes an optimizer's or scaler's state."""
    return method in STATES and is_stepped(owner)


def is_scaler(name: str) -> bool:
    """Whether something is called like a scaler, not like its class."""
    return name.endswith(SCALER)


def handles_scale(name: str) -> bool:
    """Whether something is called after the scale of a loss, or what takes it away again."""
    return _SCALE.search(name) is not None


def is_about_scaler(name: str) -> bool:
    """Whether something is called after a scaler's class."""
    return any(maker in name for maker in MAKERS)


def reads_scale(attribute: str) -> bool:
    """Whether an attribute of a scaler is its scale, or gives it."""
    return attribute in amp.SCALE_ATTRIBUTES or attribute in words(Role.SCALE)


LOOKED_FOR = re.compile(
    r"test|pytest_|load_tests$|(setup|teardown)(_?(module|package|class|method|function|test))?$",
    re.IGNORECASE,
)
"""Functions and classes that unittest, pytest and nose find by their names."""
