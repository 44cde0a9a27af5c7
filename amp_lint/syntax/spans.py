"""Where the nodes of a module stand in its text.

libcst tells nobody; code that is generated from a tree does. It is generated for the function or
the statement that a node is in, and looked up in the text: most trees are asked for few places.
"""

from __future__ import annotations

import bisect
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager

import libcst as cst
from libcst._nodes.internal import CodegenState

Span = tuple[int, int]
_LOST = re.compile(r"\f|\r(?!\n)")
"""What libcst does not always give back."""
_RECURSION_LIMIT = 20_000  # code generation takes about eight frames for one level of nesting


class ParseError(Exception):
    """libcst cannot parse a text, though Python may."""


class LossyParseError(ParseError):
    """The tree stands for another text than was parsed, so that offsets would be wrong."""


class Spans:
    """The spans of the nodes of one module, part by part."""

    def __init__(self, module: cst.Module, text: str, start: int = 0) -> None:
        """Prepare; ``text`` is what ``module`` stands for, and offsets begin with ``start``."""
        self._module = module
        self._text = text
        self._start = start
        self._parts: dict[int, Recorder] = {}

    def recorder(self, holders: Sequence[cst.CSTNode]) -> Recorder:
        """What was recorded of a node and all around it; ``holders`` are it and its ancestors.

        Raises:
            LossyParseError: the text cannot be made from the module.
        """
        known = (self._parts.get(id(holder)) for holder in holders)
        return next(filter(None, known), None) or self._made(holders)

    def _made(self, holders: Sequence[cst.CSTNode]) -> Recorder:
        functions = [each for each in holders if isinstance(each, cst.FunctionDef)]
        part = functions[-1] if functions else holders[-2:][0]
        found = None if part is self._module else self._of_part(part, holders)
        made = found or self._of_module()
        self._parts[id(part if found else self._module)] = made
        return made

    def _of_part(self, part: cst.CSTNode, holders: Sequence[cst.CSTNode]) -> Recorder | None:
        """What is recorded of a function or a statement, if the text has its code once."""
        if _LOST.search(self._text):
            return None
        ends = self._text.endswith(("\n", "\r"))
        text = self._text if ends else self._text + self._module.default_newline
        recorder = self._recorder()
        around = holders[[*map(id, holders)].index(id(part)) + 1 :]
        for block in (each for each in reversed(around) if isinstance(each, cst.IndentedBlock)):
            indent = recorder.default_indent if block.indent is None else block.indent
            recorder.increase_indent(indent)
        _generate(part, recorder)
        code = "".join(recorder.tokens)
        at = text.find(code)
        if at < 0 or text.find(code, at + 1) >= 0:
            return None
        recorder.move(self._start + at)
        return recorder

    def _of_module(self) -> Recorder:
        recorder = self._recorder()
        _generate(self._module, recorder)
        generated = "".join(recorder.tokens)
        if generated != self._text:
            recorder.shift(_lost_form_feeds(self._text, generated))
        recorder.move(self._start)
        return recorder

    def _recorder(self) -> Recorder:
        return Recorder(self._module.default_indent, self._module.default_newline)


def _generate(node: cst.CSTNode, recorder: Recorder) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        node._codegen(recorder)
    finally:
        sys.setrecursionlimit(limit)


def _lost_form_feeds(text: str, generated: str) -> list[int]:
    """Where libcst drops a form feed: it does so right in front of a statement.

    Raises:
        LossyParseError: more than form feeds is missing.
    """
    lost: list[int] = []
    at = 0
    for char in text:
        if at < len(generated) and char == generated[at]:
            at += 1
        elif char == "\f":
            lost.append(at)
        else:
            break
    if at < len(generated) or len(text) != len(generated) + len(lost):
        raise LossyParseError("libcst does not give its text back, as with old Mac line ends")
    return lost


class Recorder(CodegenState):
    """Generates code and notes the offset at which each node starts and ends."""

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.offset = 0
        self.starts: list[int] = []
        self.own: dict[int, Span] = {}
        self.whole: dict[int, Span] = {}

    def add_token(self, value: str) -> None:
        """Generate a text."""
        self.tokens.append(value)
        self.offset += len(value)

    def add_indent_tokens(self) -> None:
        """Generate the indentation."""
        self.tokens.extend(self.indent_tokens)
        self.offset += sum(map(len, self.indent_tokens))

    def before_codegen(self, node: cst.CSTNode) -> None:
        """Note where a node starts."""
        self.starts.append(self.offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        """Note where it ends."""
        self.whole[id(node)] = self.starts.pop(), self.offset

    def record_syntactic_position(  # type: ignore[override, unused-ignore]
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> AbstractContextManager[None]:
        """Note where a node's own text starts and ends."""
        return _OwnSpan(self, node, start_node, end_node)

    def shift(self, lost: list[int]) -> None:
        """Count in what is ``lost`` from the generated text, given by offsets into that."""
        for spans in (self.own, self.whole):
            for key, (start, end) in spans.items():
                after = bisect.bisect_right(lost, start), bisect.bisect_left(lost, end)
                spans[key] = start + after[0], max(start + after[0], end + after[1])

    def move(self, by: int) -> None:
        """Count all offsets from another place."""
        if by:
            for spans in (self.own, self.whole):
                spans.update({key: (start + by, end + by) for key, (start, end) in spans.items()})

    def known(self, node: cst.CSTNode) -> Span:
        """A node's own text: without parentheses around it, comments and line ends."""
        return self.own.get(id(node)) or self.whole[id(node)]


class _OwnSpan(AbstractContextManager[None]):
    """What `contextlib.contextmanager` would make, several times faster."""

    __slots__ = ("end_node", "node", "recorder", "start", "start_node")

    def __init__(
        self,
        recorder: Recorder,
        node: cst.CSTNode,
        start_node: cst.CSTNode | None,
        end_node: cst.CSTNode | None,
    ) -> None:
        self.recorder = recorder
        self.node = node
        self.start_node = start_node
        self.end_node = end_node
        self.start = 0

    def __enter__(self) -> None:
        self.start = self.recorder.offset

    def __exit__(self, *exc_info: object) -> None:
        known = self.recorder.known
        start = known(self.start_node)[0] if self.start_node is not None else self.start
        end = known(self.end_node)[1] if self.end_node is not None else self.recorder.offset
        self.recorder.own[id(self.node)] = start, end
