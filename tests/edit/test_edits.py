"""Text surgery: what is written where, and that all else stays as it is."""

from __future__ import annotations

import libcst as cst
import pytest

from amp_lint.edit import edits
from amp_lint.syntax.tree import Tree
from amp_lint.text.diagnostic import Applicability, Edit, Fix


def fix(*changes: Edit) -> Fix:
    return Fix("fix", changes, Applicability.SAFE)


def line_of(tree: Tree, text: str) -> cst.BaseStatement:
    """The statement whose source starts like this."""
    kinds = (cst.SimpleStatementLine, cst.If, cst.With, cst.For)
    found = [node for kind in kinds for node in tree.nodes(kind)]
    (statement,) = (node for node in found if tree.source(node).startswith(text))
    assert isinstance(statement, cst.BaseStatement)
    return statement


# --- applying -------------------------------------------------------------------------------------


def test_apply_in_any_order() -> None:
    one, two = fix(Edit(0, 1, "A")), fix(Edit(4, 5, "E"))
    for order in ([one, two], [two, one]):
        text, applied = edits.apply("abcdef", order)
        assert text == "AbcdEf"
        assert applied == [one, two]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Edit(0, 3, "x"), Edit(2, 4, "y")),
        (Edit(0, 5, "x"), Edit(1, 2, "y")),
        (Edit(1, 2, "x"), Edit(1, 3, "y")),
        (Edit(2, 2, "x"), Edit(2, 2, "y")),
        (Edit(2, 2, "x"), Edit(2, 3, "y")),
    ],
)
def test_what_overlaps_waits(first: Edit, second: Edit) -> None:
    text, applied = edits.apply("abcdef", [fix(first), fix(second)])
    assert applied == [fix(first)]
    assert text == edits.splice("abcdef", [first])


def test_neighbours_do_not_overlap() -> None:
    text, applied = edits.apply("abcdef", [fix(Edit(0, 2, "x")), fix(Edit(2, 4, "y"))])
    assert (text, len(applied)) == ("xyef", 2)


def test_a_fix_is_applied_whole_or_not_at_all() -> None:
    both = fix(Edit(1, 2, "B"), Edit(4, 5, "E"))
    text, applied = edits.apply("abcdef", [fix(Edit(0, 2, "x")), both])
    assert (text, len(applied)) == ("xcdef", 1)


def test_a_shared_edit_is_made_once() -> None:
    shared = Edit(0, 0, "import torch\n")
    text, applied = edits.apply("ab", [fix(shared, Edit(0, 1, "x")), fix(shared, Edit(1, 2, "y"))])
    assert text.count("import torch") == 1
    assert applied


def test_the_same_fix_twice() -> None:
    same = fix(Edit(2, 2, "x"))
    text, applied = edits.apply("abcd", [same, fix(Edit(2, 2, "x"))])
    assert (text, len(applied)) == ("abxcd", 2)


# --- inserting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "before", "expected"),
    [
        ("a()\nb()\n", "b()", "a()\nnew()\nb()\n"),
        ("if x:\n    b()\n", "b()", "if x:\n    new()\n    b()\n"),
        ("if x:\n\tb()\n", "b()", "if x:\n\tnew()\n\tb()\n"),
        ("if x:\r\n  b()\r\n", "b()", "if x:\r\n  new()\r\n  b()\r\n"),
        ("b()", "b()", "new()\nb()"),
        ("a()\n\n# why\nb()  # c\n", "b()", "a()\n\n# why\nnew()\nb()  # c\n"),
        ("a()\nif b:\n    c()\n", "if b", "a()\nnew()\nif b:\n    c()\n"),
        ("a()\nfor b in c:\n    d()\n", "for b", "a()\nnew()\nfor b in c:\n    d()\n"),
    ],
)
def test_insert_before(text: str, before: str, expected: str) -> None:
    tree = Tree(text)
    edit = edits.insert_before(tree, line_of(tree, before), "new()")
    assert edits.splice(text, [edit]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if x:\n    b()\n", "if x:\n    if g:\n        new()\n    b()\n"),
        ("if x:\n\tb()\n", "if x:\n\tif g:\n\t\tnew()\n\tb()\n"),
        ("if x:\r\n  b()\r\n", "if x:\r\n  if g:\r\n    new()\r\n  b()\r\n"),
    ],
)
def test_insert_under_a_guard(text: str, expected: str) -> None:
    tree = Tree(text)
    edit = edits.insert_before(tree, line_of(tree, "b()"), "new()", "g")
    assert edits.splice(text, [edit]) == expected


# --- moving a tail out of a block -----------------------------------------------------------------


def dedented(text: str, first: str = "b(") -> str:
    """``text`` with the tail of its first ``with`` from ``first`` on moved out."""
    tree = Tree(text)
    edit = edits.dedent_tail(tree, tree.nodes(cst.With)[0], line_of(tree, first))
    result = edits.splice(text, [edit])
    cst.parse_module(result)
    return result


CASES = {
    "plain": ("with x:\n    a()\n    b()\n    c()\nd()\n", "with x:\n    a()\nb()\nc()\nd()\n"),
    "at the end": ("with x:\n    a()\n    b()", "with x:\n    a()\nb()"),
    "nested": (
        "if y:\n    with x:\n        a()\n        b()\n",
        "if y:\n    with x:\n        a()\n    b()\n",
    ),
    "compound": (
        "with x:\n    a()\n    b(); z()\n    if c:\n        d()\n    else:\n        e()\n",
        "with x:\n    a()\nb(); z()\nif c:\n    d()\nelse:\n    e()\n",
    ),
    "other indent": (
        "if y:\n  with x:\n      a()\n      b()\n",
        "if y:\n  with x:\n      a()\n  b()\n",
    ),
    "continued": (
        "with x:\n    a()\n    b(\n        1,\n    2,\n  3)\n",
        "with x:\n    a()\nb(\n    1,\n2,\n  3)\n",
    ),
    "backslash": (
        "with x:\n    a()\n    b(1) + \\\n        c\n",
        "with x:\n    a()\nb(1) + \\\n    c\n",
    ),
    "blank lines": (
        "with x:\n    a()\n\n    b()\n\n    c()\n\n\nd()\n",
        "with x:\n    a()\n\nb()\n\nc()\n\n\nd()\n",
    ),
    "comments": (
        "with x:\n    a()  # one\n    # two\n    # three\n    b()  # four\n    # five\n    c()\n",
        "with x:\n    a()  # one\n# two\n# three\nb()  # four\n# five\nc()\n",
    ),
    "comment further left": (
        "with x:\n    a()\n    b()\n# left\n    c()\n",
        "with x:\n    a()\nb()\n# left\nc()\n",
    ),
    "string": (
        'with x:\n    a()\n    b("""one\n    two\n""")\n    c()\n',
        'with x:\n    a()\nb("""one\n    two\n""")\nc()\n',
    ),
    "f-string": (
        'with x:\n    a()\n    b(f"""one {y}\n    two\n    """, 1)\n',
        'with x:\n    a()\nb(f"""one {y}\n    two\n    """, 1)\n',
    ),
    "string above": (
        'with x:\n    a("""\n    one""")\n    b()\n',
        'with x:\n    a("""\n    one""")\nb()\n',
    ),
    "joined strings": (
        "with x:\n    a()\n    b('''1\n    2''' '''3\n    4''')\n",
        "with x:\n    a()\nb('''1\n    2''' '''3\n    4''')\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_dedent(before: str, after: str) -> None:
    assert dedented(before) == after


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES.keys())
def test_dedent_with_other_line_ends(before: str, after: str) -> None:
    assert dedented(before.replace("\n", "\r\n")) == after.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "name", ["plain", "nested", "compound", "blank lines", "comments", "string"]
)
def test_dedent_with_tabs(name: str) -> None:
    before, after = (text.replace("    ", "\t") for text in CASES[name])
    assert dedented(before) == after


def test_dedent_keeps_the_meaning() -> None:
    """Strings have the same value afterwards, and the rest is the same program."""
    before = CASES["f-string"][0] + "    c('''\n\\\n    3''')\n"
    moved = dedented(before)
    body = before.replace("with x:\n", "if x:\n")
    strings = [
        [node.evaluated_value for node in Tree(text).nodes(cst.SimpleString)]
        for text in (body, moved)
    ]
    assert strings[0] == strings[1]


# --- removing and replacing -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.half()", "x"),
        ("f(x).half()", "f(x)"),
        ("(x).half( )", "(x)"),
        ("x.to(a).half().cuda()", "x.to(a).cuda()"),
        ("(x\n .half())", "(x)"),
    ],
)
def test_delete_call_suffix(text: str, expected: str) -> None:
    tree = Tree(text)
    (call,) = (
        c
        for c in tree.nodes(cst.Call)
        if isinstance(c.func, cst.Attribute) and c.func.attr.value == "half"
    )
    edit = edits.delete_call_suffix(tree, call)
    assert edit is not None
    assert edits.splice(text, [edit]) == expected


def test_a_comment_is_not_deleted_with_a_call_suffix() -> None:
    tree = Tree("(\n    x  # there\n    .half()\n)\n")
    (call,) = tree.nodes(cst.Call)
    assert edits.delete_call_suffix(tree, call) is None


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("f(a, b, c)", 0, "f(b, c)"),
        ("f(a, b, c)", 1, "f(a, c)"),
        ("f(a, b, c)", 2, "f(a, b)"),
        ("f(a, b=(1), )", 1, "f(a, )"),
        ("f(\n    a,\n    b=1,\n)", 1, "f(\n    a,\n)"),
        ("f(\n    a,  # why\n    b=1,\n)", 1, None),
        ("f(\n    a,  # why\n    b=1,\n)", 0, None),
    ],
)
def test_remove_argument(text: str, index: int, expected: str | None) -> None:
    tree = Tree(text)
    (call,) = tree.nodes(cst.Call)
    edit = edits.remove_argument(tree, call, call.args[index])
    assert (edits.splice(text, [edit]) if edit else None) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a()\nbad()\nc()\n", "a()\nc()\n"),
        ("a()\nbad()  # why\nc()\n", "a()\n# why\nc()\n"),
        ("bad()", ""),
        ("a(); bad()\n", None),
        ("if x:\n    bad()\n", ""),
        ("if x():\n    bad()\n", "if x():\n    pass\n"),
        ("if x:\n    bad()\nelse:\n    c()\n", "if x:\n    pass\nelse:\n    c()\n"),
        ("if x:\n    a()\n    bad()\n", "if x:\n    a()\n"),
        ("for i in x:\n    bad()\n", "for i in x:\n    pass\n"),
        ("def f():\n    if x:\n        bad()\n", "def f():\n    pass\n"),
        ("if x: bad()\ny()\n", "y()\n"),
        ("a()\r\nbad()\r\nc()\r\n", "a()\r\nc()\r\n"),
        ("if x:\n\ta()\n\tbad()  # why\n", "if x:\n\ta()\n\t# why\n"),
    ],
)
def test_remove_statement(text: str, expected: str | None) -> None:
    tree = Tree(text)
    (small,) = (node for node in tree.nodes(cst.Expr) if tree.source(node) == "bad()")
    edit = edits.remove_statement(tree, small)
    assert (edits.splice(text, [edit]) if edit else None) == expected


def test_replace_node_keeps_parentheses() -> None:
    text = "y = (x)\n"
    tree = Tree(text)
    (name,) = (node for node in tree.nodes(cst.Name) if node.value == "x")
    assert edits.splice(text, [edits.replace_node(tree, name, "z")]) == "y = (z)\n"


def test_rewrite() -> None:
    text = "y = f(x, 1)\n"
    tree = Tree(text)
    (call,) = tree.nodes(cst.Call)
    (name,) = (node for node in tree.nodes(cst.Name) if node.value == "x")
    changes = [edits.replace_node(tree, name, "zz")]
    assert edits.rewrite(tree, call, changes) == "f(zz, 1)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with a:\n    b()\n    c()\n", "b()\nc()\n"),
        (
            "if x:\n    # y\n    with a:\n        # z\n        b()\nd()\n",
            "if x:\n    # y\n    # z\n    b()\nd()\n",
        ),
        ("with a:  # why\n    b()\n", None),
        ("with a as x:\n    b()\n", None),
        ("with a: b()\n", None),
    ],
)
def test_dissolve(text: str, expected: str | None) -> None:
    tree = Tree(text)
    edit = edits.dissolve(tree, tree.nodes(cst.With)[0])
    assert (None if edit is None else edits.splice(text, [edit])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with a(1):\n  b()\n  c()\n", "with a(1):\n  b()\nc()\n"),
        ("with a():\n  b()\n  c()\n  d()\n", "with a():\n  b()\nc()\nwith a():\n  d()\n"),
        ("with a():\n  c()\n  # y\n  d()\n", "c()\nwith a():\n  # y\n  d()\n"),
        (
            "with a(), n():\n\n  b()\n\n  # y\n  c()\n",
            "with n():\n\n  with a():\n    b()\n\n  # y\n  c()\n",
        ),
        ("with n(), a(\n  1\n):\n  c()\n", "with n():\n  c()\n"),
        (
            "with (n(), a(), m()):\n  b(\n  1)\n  c()\n  d()",
            "with (n(), m()):\n  with a():\n    b(\n    1)\n  c()\n  with a():\n    d()",
        ),
        (
            'with n(), a():\n\tb("""\n\t""")\n\tc()\n',
            'with n():\n\twith a():\n\t\tb("""\n\t""")\n\tc()\n',
        ),
        ("with a(), (  # why\n  n()):\n  b()\n  c()\n", None),
    ],
)
def test_leave(text: str, expected: str | None) -> None:
    tree = Tree(text)
    (holder,) = tree.nodes(cst.With)
    item = next(each for each in holder.items if tree.source(each.item).startswith("a("))
    rest = line_of(tree, "d(") if "d(" in text else None
    changes = edits.leave(tree, holder, item, line_of(tree, "c("), rest)
    assert (edits.splice(text, changes) if changes else None) == expected
