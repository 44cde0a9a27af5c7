"""``amp-lint why``: from a symptom, in words or in a log, to rules and to places in the code."""

from __future__ import annotations

import argparse
import codecs
import collections
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from amp_lint import arguments
from amp_lint.handbook import symptoms
from amp_lint.handbook.symptoms import Reading
from amp_lint.report import Style
from amp_lint.report.reading import answer, causes, sights
from amp_lint.report.terminal import style_of
from amp_lint.rule import Rule
from amp_lint.run import streams
from amp_lint.run.config import ConfigError
from amp_lint.run.discover import unreadable
from amp_lint.run.session import CLEAN, ERROR
from amp_lint.syntax.cells import SUFFIXES

NOTHING = 1
"""The exit code where nothing fits."""
MAX_BYTES = 64 * 2**20
"""Bytes of a log that are read: the last ones, as it ends with what went wrong."""
_CHUNK = 2**20
_SHORT = 40
"""Characters of a question that is repeated."""
_STDIN = "-"
_SAY = (
    'say what you see, as in `amp-lint why "loss is nan"`, or give a log: '
    "`python train.py 2>&1 | amp-lint why`"
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: words, or where a log stands, and the paths to look at."""

    words: str
    log: str
    """Instead of words; ``-`` is stdin."""
    paths: tuple[str, ...]


def why(words: Sequence[str]) -> int:
    """``amp-lint why [TEXT ... | LOG | -] [PATHS]``: 0 if something fits, 1 if nothing does.

    Raises:
        ConfigError: nothing is asked, or what is asked for cannot be read.
    """
    if not {"-h", "--help"}.isdisjoint(words):
        parser().print_help()
        return CLEAN
    question = _question(words)
    text = _read(question.log) if question.log else question.words
    if not text.strip():
        raise ConfigError(f"{'stdin' if question.log == _STDIN else 'the text'} is empty; {_SAY}")
    reading = symptoms.index().read(text)
    if question.words and not reading.matches:
        reading = symptoms.index().read(" ".join(text.split()))
    style = style_of(sys.stdout)
    for line in sights(reading, style):
        print(line)
    if question.paths and (rules := [rule for rule in _rules(reading) if rule.is_static]):
        return _look(reading, rules, question.paths, style)
    print("\n".join((*answer(reading, style), *_further(question, reading))))
    return CLEAN if reading.matches else NOTHING


def _rules(reading: Reading) -> list[Rule]:
    """The rules that are about what was read, the most likely first."""
    return [match.topic for match in reading.matches if isinstance(match.topic, Rule)]


def _look(reading: Reading, rules: list[Rule], paths: Sequence[str], style: Style) -> int:
    """Look for what fits at ``paths``: 0 if it is there, 1 if not, 2 if not all could be read."""
    from amp_lint.suspects import Search, report

    codes = ",".join(rule.code for rule in rules)
    options = arguments.parse([f"--select={codes}", "--preview", "--ignore-noqa", "--", *paths])
    search = Search(rules, options)
    sys.stdout.writelines(report(search, style))
    for line in (*causes(reading, style), *_only_run(reading)):
        print(line)
    if search.failed:
        return ERROR
    return CLEAN if search.found else NOTHING


def _further(question: Question, reading: Reading) -> Iterator[str]:
    yield from _only_run(reading)
    if rules := _rules(reading):
        asked = question.words or question.log
        asked = "TEXT" if "\n" in asked or len(asked) > _SHORT else shlex.quote(asked)
        yield ""
        yield f"`amp-lint rule {rules[0].code}` explains a rule,"
        yield f"`amp-lint why {asked} PATHS` looks for what fits in your code."


def _only_run(reading: Reading) -> Iterator[str]:
    """What no look at code can find."""
    if codes := [rule.code for rule in _rules(reading) if rule.run_only]:
        yield ""
        yield f"Only a run shows {' and '.join(codes)}: `amp-lint run train.py` watches one."


# --- what is asked --------------------------------------------------------------------------------


def _question(given: Sequence[str]) -> Question:
    """What the words of a command line ask.

    Raises:
        ConfigError: a path does not exist, or there is such an option nowhere.
    """
    words, paths = _split(given)
    for word in words:
        if word.startswith("--"):
            raise ConfigError(f"command line: why has no option {word}")
        if word.endswith(SUFFIXES) and " " not in word and not _exists(word):
            raise ConfigError(f"{word}: does not exist; check the path")
    if not words:
        if sys.stdin is None or sys.stdin.isatty():
            raise ConfigError(f"command line: no symptom is given; {_SAY}")
        words = [_STDIN]
    is_log = len(words) == 1 and (words[0] == _STDIN or _exists(words[0]))
    return Question("" if is_log else " ".join(words), words[0] if is_log else "", tuple(paths))


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words, and the paths: what follows ``--``, or the last arguments that are some."""
    if "--" in arguments:
        end = arguments.index("--")
        return [*arguments[:end]], [*arguments[end + 1 :]]
    end = len(arguments)
    while end and _is_code(arguments[end - 1]):
        end -= 1
    paths = [word for word in arguments[:end] if _is_plain_path(word)]
    words = [word for word in arguments[:end] if word not in paths]
    return words, [*paths, *arguments[end:]]


def _is_plain_path(argument: str) -> bool:
    """Whether a path is no word, too, as a directory `loss` would be."""
    return any(sign in argument for sign in "/\\.") and _is_code(argument)


def _is_code(argument: str) -> bool:
    return _exists(argument) and (Path(argument).is_dir() or argument.endswith(SUFFIXES))


def _exists(argument: str) -> bool:
    try:
        return bool(argument) and Path(argument).exists()
    except (OSError, ValueError):  # too long for a path, or with a NUL
        return False


def _read(log: str) -> str:
    """The end of a log, whatever bytes it has.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        if log == _STDIN:
            return _decoded(_tail(sys.stdin.buffer)) if sys.stdin else ""
        with Path(log).open("rb") as stream:
            return _decoded(_tail(stream))
    except OSError as error:
        if log == _STDIN:
            raise ConfigError(f"stdin cannot be read: {streams.reason(error)}; {_SAY}") from error
        raise ConfigError(f"{log}: {unreadable(error)}") from error


def _tail(stream: BinaryIO) -> bytes:
    chunks = iter(lambda: stream.read(_CHUNK), b"")
    return b"".join(collections.deque(chunks, maxlen=MAX_BYTES // _CHUNK))


def _decoded(data: bytes) -> str:
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if utf_16 else "utf-8", errors="replace")


def parser() -> argparse.ArgumentParser:
    """For the help alone: words such as -inf are no options."""
    return argparse.ArgumentParser(
        "amp-lint why",
        usage="amp-lint why TEXT ... [PATHS]\n"
        "       amp-lint why LOG [PATHS]\n"
        "       COMMAND 2>&1 | amp-lint why [PATHS]",
        description="Say which rules are about a symptom, most likely first: words such as\n"
        '"loss is nan", a message of torch, or a log with a traceback, in a file or from\n'
        "stdin. Given paths, look there for what fits. Paths are the last arguments that\n"
        "exist, or what stands after --.",
        epilog="Exit code: 0 something fits, 1 nothing does, 2 something went wrong.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
