"""Which words an option may be, and the tests that fail for all of them."""

import textwrap

import libcst as cst
import pytest

from amp_lint.flow.options import Options
from amp_lint.model import Model
from amp_lint.text.source import Source


def words(text: str) -> list[str]:
    """The words that the test of the only assertion fails for."""
    model = Model(Source(textwrap.dedent(text).encode(), "script.py"))
    (found,) = model.tree.nodes(cst.Assert)
    return sorted(Options(model.values).words(found.test))


LOOKED_UP = """
    TABLE = {{"fp16": 1, "bf16": 2}}

    def run(options, word):
        {before}
        chosen = TABLE[word]
        assert {test}
        {after}
    """


@pytest.mark.parametrize(
    "test",
    [
        'word == "float16"',
        'not word != "float16"',
        'word in ("float16", "half")',
        'word == "float16" and options.on',
        '"float16" == word',
    ],
)
def test_a_word_that_is_no_key_of_the_table_is_never_meant(test: str) -> None:
    """For each key the test fails, and each other word raises."""
    assert words(LOOKED_UP.format(test=test, before="", after="")) == ["bf16", "fp16"]


@pytest.mark.parametrize(
    ("test", "before", "after"),
    [
        ('word == "fp16"', "", ""),
        ('word == "float16" or options.on', "", ""),
        ('word != "float16"', "", ""),
        ('word.replace("fp", "float") == "float16"', "", ""),
        ('str(word) == "float16"', "", ""),
        ("word == options.other", "", ""),
        ('options.word == "float16"', "", ""),
        ('word == "float16"', "word = word.lower()", ""),
        ('word == "float16"', "", 'TABLE["float16"] = 3'),
        ('word == "float16"', "", "register(TABLE)"),
    ],
)
def test_a_word_may_be_meant(test: str, before: str, after: str) -> None:
    """It is a key, something else may make the test true, or the table or the word change."""
    assert words(LOOKED_UP.format(test=test, before=before, after=after)) == []


@pytest.mark.parametrize(
    "lookup",
    [
        "TABLE.get(word)",
        "[TABLE[word] for word in options]",
        "(TABLE[word] if options.on else 0)",
        "other()",
        "0\n        for word in options: chosen = TABLE[word]",
    ],
)
def test_a_lookup_that_need_not_raise_says_nothing(lookup: str) -> None:
    """``get`` gives None for other words; what is not looked up with the test says nothing."""
    text = LOOKED_UP.format(test='word == "float16"', before="", after="")
    assert words(text.replace("TABLE[word]", lookup)) == []


def test_a_lookup_after_which_nobody_comes_says_nothing() -> None:
    """What leaves the function between the test and the lookup may do so for other words."""
    after = "if options.on: return\n        chosen = TABLE[word]"
    text = LOOKED_UP.format(test='word == "float16"', before="", after=after)
    assert words(text.replace("        chosen = TABLE[word]\n", "", 1)) == []


def test_a_lookup_that_may_raise_says_nothing() -> None:
    """Other words are what the handler is for."""
    text = """
        TABLE = {"fp16": 1, "bf16": 2}

        def run(word):
            try:
                chosen = TABLE[word]
            except Exception:
                chosen = None
            assert word == "float16"
        """
    assert words(text) == words(text.replace("Exception", "KeyError")) == []


CHOICES = """
    parser.add_argument({added})
    args = parser.parse_args()
    assert args.amp_dtype == "fp16"
    """


@pytest.mark.parametrize(
    "added",
    [
        '"-d", "--amp-dtype", choices=["float16", "bfloat16"]',
        '"--precision", dest="amp_dtype", choices=("float16", "bfloat16"), default="float16"',
    ],
)
def test_an_argument_is_one_of_its_choices(added: str) -> None:
    """argparse refuses all others."""
    assert words(CHOICES.format(added=added)) == ["bfloat16", "float16"]


@pytest.mark.parametrize(
    "added",
    [
        '"--amp-dtype", default="fp32"',
        '"--amp-dtype", choices=["float16", "fp16"]',
        '"--amp-dtype", choices=["float16"], default="fp16"',
        '"--amp-dtype", choices=["float16"], default=DEFAULT',
        '"--amp-dtype", choices=[*NAMES]',
        '"--amp-dtype", choices=NAMES',
        '"--amp-dtype", choices=["float16"], nargs="+"',
        '"--amp-dtype", choices=["float16"])\nparser.set_defaults(amp_dtype="fp16"',
        '"--amp-dtype", choices=["float16"])\nother.add_argument("--amp-dtype"',
        '"--amp-dtype", choices=["float16"])\nargs.amp_dtype = f("fp16"',
        '"--amp-dtype", choices=["float16"])\nsetattr(args, "amp_dtype", f("fp16")',
        '"--amp-dtype", choices=["float16"])\nvars(args).update(a=f("fp16")',
        '"--amp", choices=["float16"]',
    ],
)
def test_an_argument_may_be_another_word(added: str) -> None:
    """Its default is not checked, nor are others that are set; not all choices may be known."""
    text = CHOICES.format(added=added.replace("\n", "\n    "))
    assert words(text) == []


def test_only_what_is_parsed_has_choices() -> None:
    """Something else may have an attribute of the same name."""
    text = CHOICES.format(added='"--amp-dtype", choices=["float16"]')
    assert words(text) == ["float16"]
    assert words(text.replace("parser.parse_args()", "load()")) == []


CHOSEN = """
    import torch
    WORD = "bfloat16"
    HALF, FULL = "half", "full"
    def run(options, given):
        dtype = {dtype}
        assert {test}
    """


@pytest.mark.parametrize(
    ("dtype", "test", "never"),
    [
        ("torch.bfloat16 if options.amp else None", "dtype is torch.float16", True),
        ("'bf16' if options.amp else 'fp32'", "dtype in ('fp16', 'half')", True),
        ("'bf16' if options.amp else 'fp32'", "options.on and dtype == 'fp16'", True),
        ("'bf16' if options.amp else 'fp16'", "dtype == 'fp16'", False),
        ("'bf16' if options.amp else given", "dtype == 'fp16'", False),
        ("'bf16' if options.amp else 'fp32'", "options.on or dtype == 'fp16'", False),
        ("torch.half if options.amp else None", "dtype is torch.float16", False),
        ("HALF if options.amp else FULL", "dtype == HALF", False),
        ("'half' if options.amp else 'full'", "dtype == HALF", False),
        ("torch.float32 if options.amp else None", "dtype == options.dtype", False),
        ("'bf16'", "dtype == 'fp16'", False),
        ("WORD", "dtype == 'fp16'", False),
    ],
)
def test_what_a_choice_of_constants_never_is(dtype: str, test: str, never: bool) -> None:
    """One constant alone is a setting, which its users change."""
    text = CHOSEN.format(dtype=dtype, test=test)
    model = Model(Source(textwrap.dedent(text).encode(), "script.py"))
    (found,) = model.tree.nodes(cst.Assert)
    assert Options(model.values).never(found.test) is never
    shared = text.replace(
        "        assert", "        def set():\n            nonlocal dtype\n        assert"
    )
    model = Model(Source(textwrap.dedent(shared).encode(), "script.py"))
    (found,) = model.tree.nodes(cst.Assert)
    assert not Options(model.values).never(found.test)
