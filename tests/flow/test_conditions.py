"""What tests mean, and what a path can conclude from them."""

from __future__ import annotations

import itertools

import libcst as cst
import pytest

from amp_lint.flow.conditions import (
    All,
    Any_,
    Equals,
    Facts,
    Formula,
    Not,
    Ordered,
    Truthy,
    both,
    either,
    formula,
    is_mode_test,
    opposite,
    size,
    text,
)


def parse(test: str) -> cst.BaseExpression:
    return cst.parse_expression(test)


def meaning(test: str) -> Formula:
    return formula(parse(test), lambda node: None)


A, B = Truthy("a"), Truthy("b")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("a", A),
        ("a.b[0]", Truthy("a.b[0]")),
        ("f( x,\n  y )", Truthy("f( x, y )")),
        ("not a", Not(A)),
        ("not not a", A),
        ("True", True),
        ("0", False),
        ("'x'", True),
        ("None", False),
        ("a and b", All((A, B))),
        ("a or b", Any_((A, B))),
        ("a and True", A),
        ("a and False", False),
        ("a or False", A),
        ("a or True", True),
        ("a and b and a", All((A, B))),
        ("bool(a)", A),
        ("(c := a)", A),
        ("a if b else False", All((B, A))),
        ("a is None", Equals("a", None)),
        ("a is not None", Not(Equals("a", None))),
        ("a == b'x'", Equals("a", b"x")),
        ("a in ('', b'')", Any_((Equals("a", ""), Equals("a", b"")))),
        ("None is a", Equals("a", None)),
        ("a == 'amp'", Equals("a", "amp")),
        ("'amp' != a", Not(Equals("a", "amp"))),
        ("a == torch.float16", Equals("a", "torch.float16")),
        ("a in ('x', 'y')", Any_((Equals("a", "x"), Equals("a", "y")))),
        ("a not in ['x', 'y']", Not(Any_((Equals("a", "x"), Equals("a", "y"))))),
        ("a in words", Truthy("a in words")),
        ("a not in words", Not(Truthy("a in words"))),
        ("a == b", Truthy("a == b")),
        ("a != b", Not(Truthy("a == b"))),
        ("a > 1", Ordered("a > 1", "a", cst.GreaterThan, 1)),
        ("1 < a", Ordered("a > 1", "a", cst.GreaterThan, 1)),
        ("a >= 1", Not(Ordered("a < 1", "a", cst.LessThan, 1))),
        ("1 >= a", Not(Ordered("a > 1", "a", cst.GreaterThan, 1))),
        ("b < a", Truthy("a > b")),
        ("a <= b", Not(Truthy("a > b"))),
        ("a > b", Truthy("a > b")),
        ("(a) > ((b))", Truthy("a > b")),
        ("((i + 1) % k) == (0)", Not(Truthy("(i + 1) % k"))),
        ("(i + 1) % k == 0", Not(Truthy("(i + 1) % k"))),
        ("not (i + 1) % k", Not(Truthy("(i + 1) % k"))),
        ("(i + 1) % k < 1", Not(Truthy("(i + 1) % k"))),
        ("(i + 1) % k == 1", Equals("(i + 1) % k", 1)),
        ("len(a)", A),
        ("len(a) > 0", A),
        ("1 <= len(a)", A),
        ("len(a) == 0", Not(A)),
        ("len(a) > 1", Ordered("len(a) > 1", "len(a)", cst.GreaterThan, 1)),
        ("a > 0", Ordered("a", "a", cst.GreaterThan, 0)),
        ("all([a, b])", All((A, B))),
        ("any((a, b))", Any_((A, B))),
        ("any(a)", Truthy("any(a)")),
        ("getattr(a, 'b', None)", Truthy("a.b")),
        ("a.get('b', 0) is None", Equals("a['b']", None)),
        ("str(a).lower() == 'x'", Equals("a", "x")),
        ("a is Mode.AMP", Equals("a", "Mode.AMP")),
        ("a is Mode.amp", Truthy("a is Mode.amp")),
        ("a.value == 'x'", Equals("a", "x")),
        ("a in (1, *b)", Truthy("a in (1, *b)")),
        ("(a).b(\n    (c),  # yes\n)", Truthy("a.b(c)")),
        (
            "0 < a < 2",
            All(
                (
                    Ordered("a", "a", cst.GreaterThan, 0),
                    Ordered("a < 2", "a", cst.LessThan, 2),
                )
            ),
        ),
    ],
)
def test_formula(test: str, expected: Formula) -> None:
    assert meaning(test) == expected


def test_keys_name_values() -> None:
    keys = {"scaler": "self.scaler"}
    found = formula(parse("scaler is None or x"), lambda node: keys.get(text(node)))
    assert found == Any_((Equals("self.scaler", None), Truthy("x")))


def test_combining() -> None:
    assert both() is True and either() is False
    assert both(A, All((B, A))) == All((A, B))
    assert either(A, Any_((B, A))) == Any_((A, B))
    assert opposite(opposite(A)) == A and opposite(True) is False
    assert size(Any_((All((A, B)), Not(A)))) == 3 and size(True) == 1


def known(*tests: str) -> Facts:
    """What is known where all these tests are true; they must have one way to be so."""
    facts = Facts()
    for test in tests:
        (facts,) = facts.assume(meaning(test))
    return facts


@pytest.mark.parametrize(
    ("before", "test", "possible"),
    [
        ("a", "a", (True, False)),
        ("not a", "a", (False, True)),
        ("a", "b", (True, True)),
        ("a is None", "a", (False, True)),
        ("a is None", "a is not None", (False, True)),
        ("a is not None", "a", (True, False)),
        ("a is not None", "a == 0", (True, True)),
        ("a is not None", "not a and a.b", (False, True)),
        ("b", "a is not None and not a", (True, True)),
        ("a is not None and not a", "a", (False, True)),
        ("a is not None", "a > 0", (True, False)),
        ("a != 0", "a", (True, False)),
        ("a is not True", "a", (False, True)),
        ("a != 1", "a", (True, True)),
        ("a", "a is None", (False, True)),
        ("a", "a == 0", (False, True)),
        ("a", "a == 1", (True, True)),
        ("not a", "a == 1", (False, True)),
        ("not a", "a is None", (True, False)),
        ("not a", "a > 0", (False, True)),
        ("a > 0", "a is None", (False, True)),
        ("a == -1", "a > 0", (False, True)),
        ("not (a is not None and a > 0)", "a is not None", (False, True)),
        ("a == 1", "a", (True, False)),
        ("a == 0", "a", (False, True)),
        ("a == 'x'", "a == 'y'", (False, True)),
        ("a != 'x'", "a == 'x'", (False, True)),
        ("a != 'x'", "a == 'y'", (True, True)),
        ("a == 'x'", "a in ('x', 'y')", (True, False)),
        ("a == 'z'", "a in ('x', 'y')", (False, True)),
        ("a != 'x' and a != 'y'", "a in ('x', 'y')", (False, True)),
        ("a != torch.float16", "a == torch.float16", (False, True)),
        ("a is False", "a", (False, True)),
        ("a and b", "a or b", (True, False)),
        ("a and b", "not a", (False, True)),
        ("not (a or b)", "a", (False, True)),
        ("not a", "a and b", (False, True)),
        ("a > 1", "a > 1", (True, False)),
        ("a > 1", "a > 2", (True, True)),
        ("a > 1", "1 < a", (True, False)),
        ("a > 1", "a <= 1", (False, True)),
        ("a < b", "b > a", (True, False)),
        ("a < b", "a >= b", (False, True)),
        ("a == 2", "a > 1", (True, False)),
        ("a == 0", "a > 0", (False, True)),
        ("a == 1", "a <= 1", (True, False)),
        ("a == 'x'", "a > 1", (True, True)),
    ],
)
def test_what_follows(before: str, test: str, possible: tuple[bool, bool]) -> None:
    facts = known(before)
    found = tuple(bool(facts.assume(meaning(test), truth)) for truth in (True, False))
    assert found == possible


@pytest.mark.parametrize("test", ["a or b", "not (a and b)", "a in (1, 2, 3)", "a if b else c"])
def test_ways_exclude_each_other(test: str) -> None:
    """No two ways hold at once, and none holds together with the opposite."""
    condition = meaning(test)
    ways = Facts().assume(condition)
    assert len(ways) > 1
    for one, other in itertools.permutations(ways, 2):
        assert one.signature() != other.signature()
    assert not any(way.assume(condition, False) for way in ways)


@pytest.mark.parametrize(
    ("tests", "together"),
    [
        (["a", "not a"], False),
        (["a or b", "not a", "not b"], False),
        (["a or b", "not a"], True),
        (["a == 'x' or a == 'y'", "a != 'x'", "a"], True),
        (["a == 'x' or a == 'y'", "a not in ('x', 'y')"], False),
        (["a is None or b", "a", "not b"], False),
        (["(a and b) or (not a and not b)", "a", "b"], True),
        (["a if b else c", "not a", "not c"], False),
        ([], True),
    ],
)
def test_what_can_be_at_once(tests: list[str], together: bool) -> None:
    assert Facts().allows(*map(meaning, tests)) is together
    assert bool(Facts().assume(both(*map(meaning, tests)))) is together


def test_many_alternatives_are_not_gone_through_in_all_their_combinations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 20 pairs, each of which asks for another setting, one contradicts what is known."""
    pairs = [either(Truthy(f"a{n}"), Truthy(f"b{n}")) for n in range(20)]
    asked = [opposite(either(Truthy("a19"), Truthy("b19"))), *pairs]
    asks, original = [0], Facts.allows

    def counting(facts: Facts, *conditions: Formula) -> bool:
        asks[0] += 1
        return original(facts, *conditions)

    monkeypatch.setattr(Facts, "allows", counting)
    assert Facts().allows(*pairs)
    assert not Facts().allows(*asked)
    assert asks[0] < 50


def holds(condition: Formula, values: dict[str, bool]) -> bool:
    """The truth of a formula of booleans, by the book."""
    match condition:
        case bool():
            return condition
        case Truthy(key):
            return values[key]
        case Not(part):
            return not holds(part, values)
        case All(parts):
            return all(holds(part, values) for part in parts)
        case Any_(parts):
            return any(holds(part, values) for part in parts)
    raise AssertionError(condition)


@pytest.mark.parametrize(
    "test",
    [
        "a or b",
        "a and not b",
        "not (a and (b or c))",
        "(a or b) and (not a or c)",
        "a if b else c",
        "not a and not b and a",
        "(a and b) or (not a and not b)",
        "a and (b if c else not b) or not (a or c)",
    ],
)
@pytest.mark.parametrize("values", list(itertools.product([False, True], repeat=3)))
def test_agrees_with_logic(test: str, values: tuple[bool, ...]) -> None:
    by_name = dict(zip("abc", values, strict=True))
    facts = known(*(name if value else f"not {name}" for name, value in by_name.items()))
    condition = meaning(test)
    assert bool(facts.assume(condition)) is holds(condition, by_name)
    assert bool(facts.assume(condition, False)) is not holds(condition, by_name)


@pytest.mark.parametrize(
    ("assigned", "kept"),
    [
        ("a", {"b", "b.a", "ab"}),
        ("b", {"a", "a.x", "a > 1", "ab"}),
        ("a.x", {"a", "b", "b.a", "a > 1", "ab"}),
        ("c", {"a", "a.x", "a > 1", "b", "b.a", "ab"}),
        ("", {"a", "a.x", "a > 1", "b", "b.a", "ab"}),
    ],
)
def test_forget(assigned: str, kept: set[str]) -> None:
    facts = known("a", "a.x", "a > 1", "b", "b.a", "ab")
    assert set(facts.forget([assigned]).by_key) == kept


@pytest.mark.parametrize(
    ("test", "mode"),
    [
        ("amp", True),
        ("not args.amp", True),
        ("scaler is not None", True),
        ("precision == 'amp'", True),
        ("precision in ('fp16', 'amp')", True),
        ("config['amp']", True),
        ("scaler.is_enabled()", True),
        ("getattr(args, 'amp', False)", True),
        ("amp and scaler is not None", True),
        ("(i + 1) % k == 0", False),
        ("step > warmup", False),
        ("torch.isfinite(loss)", False),
        ("amp and step > warmup", False),
        ("len(loader)", False),
        ("bool(args.amp)", True),
        ("bool(i + 1)", False),
    ],
)
def test_mode_tests(test: str, mode: bool) -> None:
    assert is_mode_test(parse(test)) is mode
