"""AMP210: an option chooses bfloat16, and autocast does not hear of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from amp_lint._lazy import cst
from amp_lint.edit import call_edits
from amp_lint.rule import Rule
from amp_lint.text.diagnostic import Applicability, Diagnostic, Fix, Severity, quoted
from amp_lint.vocabulary import written
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.operations import FLOAT16
from amp_lint.vocabulary.table import words

if TYPE_CHECKING:
    from amp_lint.amp.regions import Entered, Region
    from amp_lint.model import Model

    from ._options import Option

_BF16 = re.compile(r"bf(loat)?_?16", re.IGNORECASE)
_SETS_DTYPE = frozenset(
    {
        "torch.set_autocast_cpu_dtype", "torch.set_autocast_dtype", "torch.set_autocast_gpu_dtype",
        "torch.set_default_dtype",
    }
)  # fmt: skip
_ON = "autocast is on here, with whatever dtype"
_BACK = "this casts to float16 inside of a region of bfloat16: it gets no `dtype`"
_KEEP = 'use `torch.autocast("cuda")`, which keeps the dtype around it'
_ASK = 'cast to `torch.get_autocast_dtype("cuda")`'


class AutocastDtypeIgnored(Rule):
    """A file that lets the user choose bfloat16, and whose regions are all float16."""

    code = "AMP210"
    name = "autocast-dtype-ignored"
    severity = Severity.WARNING
    preview = True
    fixes = (Applicability.SUGGEST,)
    requires = (
        words(Role.REGION) | {"is_autocast_enabled"},
        frozenset({"add_argument", "float16", "half", "bf16", "bfloat16"}),
    )
    reads_models = True
    called_for = written.pattern(r"\bcuda\.amp\.autocast\b|\bcuda\.amp import", "cuda.amp")

    def check(self, model: Model) -> Iterator[Diagnostic]:
        """Report the regions, if none has a dtype and the option does not decide about them.

        And casts to float16 in what runs in regions of any dtype.
        """
        from ._any_autocast import casts
        from ._options import CommandLineOptions

        for cast, test in casts(model):
            message = f"{quoted(model.tree.source(cast))} casts to float16 in bfloat16 regions, too"
            yield self.report(model, cast, message, [(test, _ON)], help=_ASK)
        yield from self._contradicted(model)
        yield from self._inside(model)
        entered = [e for e in model.regions.entries if not e.region.never_enabled]
        if not entered or _is_set_elsewhere(model):
            return
        if not all(_is_float16(model, e.region) for e in entered):
            return
        option = next(
            (each for each in model.part(CommandLineOptions).all if each.offers_bf16), None
        )
        if option is None or any(_decides(model, option, e) for e in entered):
            yield from self._chosen(model, entered)
            return
        for region in _regions(entered):
            yield self.report(
                model,
                region.node,
                f"autocast casts to float16 whatever {quoted(f'--{option.name}')} says: it gets no "
                "`dtype`",
                [(option.call, "bfloat16 can be chosen here")],
                _fix(model, option, region),
                help="pass the chosen one as `dtype=`",
            )

    def _inside(self, model: Model) -> Iterator[Diagnostic]:
        """Regions without a dtype that run in regions of bfloat16, and cast to float16 there."""
        from ._inner import in_bfloat16

        for inner in in_bfloat16(model):
            related: list[tuple[cst.CSTNode, str]] = [(inner.outer.node, "bfloat16 is chosen here")]
            related += [(call, "this runs it") for call in inner.calls]
            yield self.report(model, inner.region.node, _BACK, related, help=_KEEP)

    def _chosen(self, model: Model, entered: Sequence[Entered]) -> Iterator[Diagnostic]:
        """Regions that a text for bfloat16 turns on, or beside which nothing reads the dtype."""
        from ._chosen import turned_on, unread

        chosen = unread(model)
        for region in _regions(entered):
            if (test := turned_on(model, region)) is not None:
                message = "bfloat16 turns on a region that casts to float16: it gets no `dtype`"
                related: list[tuple[cst.CSTNode, str]] = [(test, "bfloat16 is asked for here")]
            elif chosen is not None:
                message = "autocast casts to float16 whatever dtype is chosen: it gets no `dtype`"
                related = [(chosen, "the dtype is chosen here, and nothing reads it")]
            else:
                continue
            help = "pass the chosen one as `dtype=`"
            yield self.report(model, region.node, message, related, help=help)

    def _contradicted(self, model: Model) -> Iterator[Diagnostic]:
        """Regions in float16 whose own switch is called after bfloat16."""
        for region in _regions(model.regions.entries):
            dtype, switch = region.dtype, region.enabled
            if dtype is None or switch is None or not model.names.is_only(dtype, FLOAT16):
                continue
            if any(map(_BF16.search, _options(model, switch))):
                code = quoted(model.tree.source(switch))
                message = f"{code} turns float16 on, in which what is beyond 65504 is inf"
                related = [(switch, "bfloat16 is chosen here")]
                help = "pass `torch.bfloat16`, which needs no scaler"
                yield self.report(model, dtype, message, related, help=help)


def _regions(entered: Iterable[Entered]) -> list[Region]:
    """What is entered, each once."""
    return [*{id(each.region.node): each.region for each in entered}.values()]


def _options(model: Model, switch: cst.BaseExpression) -> Iterator[str]:
    """What the settings are called that a switch may be: attributes, and keys of what is loaded."""
    from amp_lint.flow.values import literal, lookup

    given = [switch, *(model.origins.given(switch) if isinstance(switch, cst.Name) else ())]
    for value in (end for each in given for end in model.values.alternatives(each)):
        if isinstance(value, cst.Attribute):
            yield value.attr.value
        elif isinstance(value, (cst.Subscript, cst.Call)) and (found := lookup(value)):
            yield str(literal(found[1]))


def _fix(model: Model, option: Option, region: Region) -> Fix | None:
    """Give the region what the option chooses, where what holds the options is known there."""
    read = (node for node in model.tree.nodes(cst.Attribute) if node.attr.value == option.name)
    holders = (node.value.value for node in read if isinstance(node.value, cst.Name))
    holder = next((name for name in holders if model.names.visible(region.node, name)), None)
    torch = model.names.spelling(region.node, "torch")
    call = region.node
    if not holder or not torch or not isinstance(call, cst.Call) or not option.dtypes:
        return None
    chosen = f"{holder}.{option.name}"
    code = f"getattr({torch}, {chosen})"
    if option.is_switch:
        code = f"{torch}.bfloat16 if {chosen} else {torch}.float16"
    changes = call_edits.set_keyword(model.tree, call, "dtype", code)
    return Fix("Cast to the dtype that is chosen", changes, Applicability.SUGGEST)


def _is_set_elsewhere(model: Model) -> bool:
    return any(model.names.is_any(call.func, _SETS_DTYPE) for call in model.tree.nodes(cst.Call))


def _is_float16(model: Model, region: Region) -> bool:
    """Whether it is a region for CUDA without a dtype of its own, and none of several."""
    from amp_lint.flow.values import literal

    if region.of_several or region.starred or region.dtype is not None or not region.function:
        return False
    if region.function.startswith("torch.cpu."):
        return False
    device = literal(region.device)
    return not isinstance(device, str) or device.partition(":")[0] == "cuda"


def _decides(model: Model, option: Option, entered: Entered) -> bool:
    """Whether the option turns the region on or off: then float16 may be what is left."""
    from amp_lint.flow.branches import guards

    from ._options import CommandLineOptions

    region = entered.region
    if region.enabled is not None and model.part(CommandLineOptions).reads(option, region.enabled):
        return True
    places = (entered.holder, region.node)
    return any(
        model.part(CommandLineOptions).reads(option, guard.test)
        for place in places
        for guard in guards(model.linked, place)
    )
