"""What a rule is.

Nothing here imports libcst: the registry is loaded on every run, a parser only when a file
deserves one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Related, Severity

if TYPE_CHECKING:
    import libcst as cst

    from amp_lint.mistake import Account
    from amp_lint.model import Model
    from amp_lint.syntax.facts import Facts
    from amp_lint.text.noqa import Code, Directive
    from amp_lint.text.source import Source
    from amp_lint.vocabulary.written import Look


class Rule:
    """A mistake that amp-lint knows. The page of the same name beside the module documents it.

    A rule says what it needs (``requires``, ``calls``) and is asked only about files that have
    it: ``visit_call`` once for every call of one of ``calls``, ``check`` once per file.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    preview: ClassVar[bool] = False
    """Off unless ``--preview``: the labelled code has not yet shown the rule to be precise."""
    fixes: ClassVar[tuple[Applicability, ...]] = ()
    """The kinds of fix that it may offer, the most trusted first."""
    run_only: ClassVar[bool] = False
    """Whether only a run that is watched shows it: the linter never asks the rule then."""
    about_comments: ClassVar[bool] = False
    """Whether it is about comments that silence others: asked last, and off unless selected."""
    requires: ClassVar[tuple[frozenset[str], ...]] = ()
    """A file is looked at when it has at least one identifier of every set."""
    requires_unless_preview: ClassVar[tuple[frozenset[str], ...]] = ()
    """Further sets, where findings that are reported in preview alone are not asked for."""
    anchors: ClassVar[tuple[frozenset[str], ...]] = ()
    """Parts of identifiers; the file itself, whatever it imports, has one of every set."""
    pattern: ClassVar[Look | None] = None
    """What the file has besides, or one that it imports from."""
    pattern_unless_preview: ClassVar[Look | None] = None
    """What one of them has besides, where findings of preview alone are not asked for."""
    elsewhere: ClassVar[frozenset[str]] = frozenset()
    """Identifiers of `requires` that a file which trains this one may have in its stead.

    Such files are looked for in preview, and the rule finds them as ``model.trainer``.
    """
    called_for: ClassVar[Look | None] = None
    """What a file has that makes it worth to look into the files that import it.

    The calls in them are part of the model then.
    """
    given: ClassVar[Look | None] = None
    """What a file has that it may be given by those that import it, such as a scaler that is off.

    The calls in them are part of the model then, too. A finding whose cause is theirs is reported
    in their files, not in this one.
    """
    reads_models: ClassVar[bool] = False
    """Whether it matters what modules and functions of other files give, not only what they do.

    Their code is part of the model then, and that of the files that import this one.
    """
    limited_by_models: ClassVar[bool] = False
    """Whether what modules of other files give may be such that nothing is wrong.

    Their code is part of the model then, but not that of the files that import this one.
    """
    moves_names: ClassVar[bool] = False
    """Whether a fix may take a name away, which other files must not import from this one then."""
    respells: ClassVar[bool] = False
    """Whether what its safe fixes write means the same to every other rule.

    Then those of such rules are tried with these rules alone.
    """
    since: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """For words that it looks for, the torch that brought what it recommends in their place.

    Uses of a word are not reported in code that must run on an older torch.
    """
    observed: ClassVar[tuple[Account, ...]] = ()
    """What to say where a run shows it: of one mistake the first for which enough is known."""
    calls: ClassVar[frozenset[str]] = frozenset()
    """Qualified names; a call of one of them is handed to `visit_call`."""

    @property
    def is_static(self) -> bool:
        """Whether it is about code, as it is written."""
        return not (self.run_only or self.about_comments)

    @property
    def asks_callers(self) -> tuple[Look, ...]:
        """What a file has that makes it worth to look into the files that import it."""
        return tuple(look for look in (self.called_for, self.given) if look is not None)

    def needs(self, *, preview: bool) -> tuple[frozenset[str], ...]:
        """The sets of identifiers of which a file has one each, in preview or without."""
        return self.requires if preview else (*self.requires, *self.requires_unless_preview)

    def looks(self, *, preview: bool) -> tuple[Look, ...]:
        """What a file or those that it imports have, in preview or without."""
        found = (self.pattern, None if preview else self.pattern_unless_preview)
        return tuple(look for look in found if look is not None)

    def may_in(self, code: bytes, *, preview: bool) -> bool:
        """Whether there may be a finding in a program, before it is parsed; what is certain only.

        It sees no others, nor is it seen by them.
        """
        return True

    def may(self, facts: Facts) -> bool:
        """Whether there may be a finding in a file; what is certain only."""
        return True

    def may_unless_preview(self, facts: Facts) -> bool:
        """Whether there may be one that is reported without preview, too."""
        return self.may(facts)

    def visit_call(self, call: cst.Call, name: str, model: Model) -> Iterable[Diagnostic]:
        """Report on one call of ``name``, one of `calls`."""
        return ()

    def check(self, model: Model) -> Iterable[Diagnostic]:
        """Report on the whole file."""
        return ()

    def visit_directive(
        self, directive: Directive, idle: Sequence[Code], source: Source
    ) -> Iterable[Diagnostic]:
        """Report on a comment, of whose codes some silence nothing; if `about_comments`."""
        return ()

    def report(
        self,
        model: Model,
        node: cst.CSTNode,
        message: str,
        related: Sequence[tuple[cst.CSTNode, str]] = (),
        fix: Fix | None = None,
        *,
        help: str,
    ) -> Diagnostic:
        """A finding of this rule on ``node``; ``related`` pairs nodes with what they show.

        ``message`` says what happens to the run and ``help`` what to do about it, whether there is
        a fix or not. Both begin in lower case, so that they can be read as one sentence, and take
        up to 100 characters, with `quoted` code at most 200; the rest is on the rule's page.
        """
        start, end = model.tree.span(node)
        places = tuple(Related(*model.tree.span(other), label) for other, label in related)
        found = (self.code, self.name, self.severity, message, start, end, places, fix)
        return Diagnostic(*found, help=help)
