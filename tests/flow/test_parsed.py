"""Options of a command line that nothing reads, and those that somebody may."""

import textwrap

import libcst as cst
import pytest

from amp_lint.flow.parsed import Parsed
from amp_lint.model import Model
from tests.programs import model_of

PROGRAM = """
    import argparse
    import json
    import torch
    import other

    def options():
        parser = argparse.ArgumentParser()
        parser.add_argument("--amp", action="store_true")
        parser.add_argument("--rate", type=float)
        return parser.parse_args()

    class Trainer:
        def __init__(self, args, path):
            self.args = args
            self.path = path

        def run(self, log):
            log.info(self.args.rate)

    def main(args, amp):
        Trainer(args, "here").run(amp)
{}

    if __name__ == "__main__":
        args = options()
        print(f"options: {{args}}", vars(args))
        main(args, 3)
    """


def is_unread(line: str) -> bool:
    model: Model = model_of(PROGRAM.format(textwrap.indent(line, " " * 8)))
    option = next(call for call in model.tree.named("add_argument"))
    call = model.tree.parent(model.tree.parent(option) or option)
    return Parsed(model.program, model.origins).is_unread(call)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        "print(args.rate, amp)",
        "logger.log_hyperparams(args)",
        "rate, path = args.rate, 'amps'",
        "json.dump(vars(args), open('log', 'w'))",
        "torch.save({'args': args}, 'last')",
        "own = args",
        "other.train(args.rate, amp=True)",
        "run = Trainer(path='there', args=args)",
    ],
)
def test_nothing_reads_it(line: str) -> None:
    assert is_unread(line)


@pytest.mark.parametrize(
    "line",
    [
        "print(args.amp)",
        "own = args\nreturn own.amp",
        "getattr(args, 'amp')",
        "vars(args)['amp']",
        "for name, value in vars(args).items(): print(name)",
        "for name in ['amp', 'rate']: print(getattr(args, name))",
        "other.train(args)",
        "other.train(**vars(args))",
        "other.train({'settings': args})",
        "args.model.train(args)",
        "first, second = args, amp",
        "chosen = [args]",
        "settings = args if amp else None",
        "with other.use(args) as own: pass",
        "args = other.checked(args)",
        "setattr(args, 'rate', 3)",
    ],
)
def test_something_may_read_it(line: str) -> None:
    assert not is_unread(line)


def test_nobody_parses() -> None:
    found = model_of("parser.add_argument('--amp')\nparse(parser)")
    call = found.tree.parent(found.tree.parent(found.tree.named("add_argument")[0]))  # type: ignore[arg-type]
    assert not Parsed(found.program, found.origins).is_unread(call)  # type: ignore[arg-type]


HANDED = """
    import argparse

    def options():
        parser = argparse.ArgumentParser()
        parser.add_argument("--kind", choices=["a", "b"], default="c")
        args = parser.parse_args()
        return args

    class Run:
        def __init__(self, args):
            self.args = args

    def main(args):
        {line}

    main({given})
    """


@pytest.mark.parametrize(
    ("line", "given", "words"),
    [
        ("use(args.kind)", "options()", ["a", "b", "c"]),
        ("own = args; use(own.kind)", "options()", ["a", "b", "c"]),
        ("use(args.kind)", "other()", []),
        ("use(args.kind)", "options().args", []),
        ("use(args.other)", "options()", []),
        ("args.kind = 'd'; use(args.kind)", "options()", []),
        ("use(kind)", "options()", []),
        ("vars(args)['kind'] = 1; use(args.kind)", "options()", []),
    ],
)
def test_words_of_what_is_handed_on(line: str, given: str, words: list[str]) -> None:
    model: Model = model_of(HANDED.format(line=line, given=given))
    used = next(each for each in model.tree.named("use"))
    call = model.tree.parent(used)
    assert isinstance(call, cst.Call)
    found = Parsed(model.program, model.origins).words(call.args[0].value)
    assert sorted(found) == words
