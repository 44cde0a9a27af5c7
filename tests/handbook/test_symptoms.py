"""From a symptom to a rule: what pages say of torch is true, and questions find their answers."""

from __future__ import annotations

import re
import sys
from types import FrameType

import pytest

from amp_lint import registry
from amp_lint.handbook import pages, symptoms
from amp_lint.handbook.concepts import concepts, split
from amp_lint.handbook.pages import PageError, Symptom
from amp_lint.handbook.uncovered import CAUSES, Cause
from amp_lint.rule import Rule
from tests.raised import CUDA_ONLY, FRAMEWORKS_ONLY, PROGRAMS, SINCE_3_11, UNCOVERED, Program, said

RULES = registry.all_rules()
TRACEBACK = "".join(
    ["Traceback (most recent call last):\n"]
    + [
        f'  File "/src/train_{row}.py", line {row}, in step_{row}\n    x = float("nan")  # inf\n'
        for row in range(29)
    ]
    + ["RuntimeError: unscale_() has already been called on this optimizer since the last "]
    + ["update().\n"]
)


def of(rule: Rule) -> tuple[Symptom, ...]:
    return pages.parse(registry.page(rule)).symptoms


def found(text: str) -> list[str]:
    """The codes of the rules that fit, "" where no rule is about it."""
    matches = symptoms.index().read(text).matches
    return [match.topic.code if isinstance(match.topic, Rule) else "" for match in matches]


# --- pages ----------------------------------------------------------------------------------------


def messages(of_topic: tuple[Symptom, ...]) -> list[str]:
    """Those that this machine's torch can say."""
    unsaid = CUDA_ONLY | FRAMEWORKS_ONLY | (SINCE_3_11 if sys.version_info < (3, 11) else set())
    return [each.text for each in of_topic if each.message and each.text not in unsaid]


def is_said(text: str, by: str) -> bool:
    """Whether a message on a page, dots and all, is what torch says."""
    pieces = (re.escape(" ".join(piece.split())) for piece in text.split("..."))
    return bool(re.fullmatch(r" ?.* ?".join(pieces), " ".join(by.split())))


def check_messages(texts: list[str], programs: tuple[Program, ...]) -> None:
    """Torch says each message, and each program makes torch say one."""
    outputs = [[*said(program)] for program in programs]
    for text in texts:
        assert any(is_said(text, by) for output in outputs for by in output), text
    for output in outputs:
        assert any(is_said(text, by) for text in texts for by in output), output


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_torch_says_what_a_page_says(rule: Rule) -> None:
    check_messages(messages(of(rule)), PROGRAMS.get(rule.code, ()))


def test_torch_says_what_no_rule_is_about() -> None:
    check_messages([text for cause in CAUSES for text in messages(cause.symptoms)], UNCOVERED)


def test_what_is_not_made_here_is_on_a_page() -> None:
    texts = {each.text for cause in CAUSES for each in cause.symptoms}
    texts |= {each.text for rule in RULES for each in of(rule)}
    assert texts >= CUDA_ONLY | FRAMEWORKS_ONLY


def test_a_text_that_torch_does_not_say_fails() -> None:
    (program,) = PROGRAMS["AMP107"]
    with pytest.raises(AssertionError):
        check_messages(["AssertionError: Attempted step but _scale is missing. ..."], (program,))
    with pytest.raises(AssertionError):
        check_messages([], (program,))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_symptoms_of_a_page(rule: Rule) -> None:
    """Words as users write them; who says the same twice, says it wrong."""
    texts = [each.text for each in of(rule)]
    assert texts and len(set(texts)) == len(texts)
    for each in of(rule):
        assert each.message or re.fullmatch(r"[a-z`].{8,}[^.,;: ]", each.text), each.text
        assert not each.message or re.match(r"\w+(Error|Warning): ", each.text)


def test_a_symptom_has_one_place() -> None:
    """A rule that comes to find something takes its symptoms over."""
    uncovered = {each.text for cause in CAUSES for each in cause.symptoms}
    assert uncovered.isdisjoint(each.text for rule in RULES for each in of(rule))


def test_symptoms_are_parsed() -> None:
    text = (
        "# A b\n\n## Symptoms\n\nSilent.\n\n* in `words`,\n  two lines\n* ``KeyError: a `b` c``\n"
    )
    assert pages.parse(text).symptoms == (
        Symptom("in `words`, two lines", message=False),
        Symptom("KeyError: a `b` c", message=True),
    )


@pytest.mark.parametrize(
    "text", ["## Symptoms\n\n* `KeyError: a`, at times\n", "## A\n\n## B\n\n## A\n\n"]
)
def test_malformed_symptoms_fail(text: str) -> None:
    with pytest.raises(PageError):
        pages.parse(text)


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_symptom_leads_to_its_rule(rule: Rule) -> None:
    for each in of(rule):
        text = each.text.replace("...", "x")
        assert rule.code in found(text), text


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.symptoms[0].text[:40])
def test_a_symptom_leads_to_its_cause(cause: Cause) -> None:
    for each in cause.symptoms:
        matches = symptoms.index().read(each.text.replace("...", "x")).matches
        assert any(match.topic is cause for match in matches), each.text


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("nan", ["AMP104", "AMP203"]),
        ("loss is nan", ["AMP104", "AMP203", "AMP206", "AMP301"]),
        ("my loss becomes NaN!", ["AMP104", "AMP203", "AMP206", "AMP301"]),
        ("unscale_() has already been called", ["AMP103", "AMP105"]),
        ("expected scalar type Half", [""]),
        ("RuntimeError: expected scalar type Half but found Float", [""]),
        ("loss does not go down with amp", ["AMP101", "AMP106", "AMP107"]),
        ("the loss doesn't decrease", ["AMP101", "AMP106", "AMP107"]),
        ("loss stays constant", ["AMP202", "AMP105"]),
        ("FutureWarning: torch.cuda.amp.autocast(args...) is deprecated", ["AMP401"]),
        ("No inf checks were recorded", ["AMP104", "AMP106", ""]),
        ("No inf checks were recorded for this optimizer", [""]),
        ("Attempting to unscale FP16 gradients", ["AMP203"]),
        ("lr_scheduler.step() before optimizer.step()", ["AMP112"]),
        ("unsafe to autocast", ["AMP204"]),
        ("loss scale 0", ["AMP602", "AMP114", "AMP206"]),
        ("inf", ["AMP104", "AMP113"]),
        ("grads vanish", ["AMP110", "AMP210"]),
        ("gradient norm in the log is huge", ["AMP102", "AMP101"]),
        ("out of memory", ["AMP207"]),
        ("plateaus early", ["AMP110"]),
        ("resume from a checkpoint", ["AMP111"]),
        ("the scale starts at 65536 again after a restart", ["AMP605"]),
        ("value cannot be converted to type at::Half without overflow", [""]),
        ("mat1 and mat2 must have the same dtype, but got Float and Half", ["AMP203", ""]),
        ("mat1 and mat2 must have the same dtype, but got Half and Float", [""]),
        (TRACEBACK, ["AMP103", "AMP105"]),
        ("a\nAssertionError: No inf checks were recorded for this optimizer.\n", [""]),
    ],
)
def test_questions(asked: str, first: list[str]) -> None:
    assert found(asked)[: len(first)] == first


@pytest.mark.parametrize(
    "asked", ["loss", "gradient", "banana", "KeyError: 'x'", "...", "loss 2.303", "-", "the is of"]
)
def test_what_fits_nothing(asked: str) -> None:
    assert found(asked) == []


@pytest.mark.parametrize(
    "asked",
    [
        "loss is nan after a few steps",
        "my loss becomes NaN when I enable amp",
        "suddenly nan loss in the third epoch of training my network",
        "outputs of the model are nan only with autocast",
    ],
)
def test_words_beside_it_hide_nothing(asked: str) -> None:
    assert {"AMP104", "AMP203", "AMP301"} <= set(found(asked))


def test_another_thing_is_no_answer() -> None:
    """A loss of 0 is no gradient of 0."""
    assert "AMP110" in found("gradients are 0")
    assert found("loss is 0") == []


def test_the_same_words_come_first() -> None:
    assert found("the loss diverges")[:2] == ["AMP104", "AMP114"]
    assert found("the loss explodes")[:2] == ["AMP114", "AMP104"]


def test_concepts() -> None:
    assert concepts(split("The loss isn't converging")) == {"loss", "stuck"}
    assert concepts(split("the losses plateaued")) == {"loss", "stuck"}
    assert concepts(split("grad_norm=0.0")) == {"gradient", "norm", "zero"}
    assert concepts(split("grad_norm: 0.25")) == {"gradient", "norm", "0.25"}
    assert concepts(split("significant")) != concepts(split("not"))
    assert concepts([]) == frozenset()


# --- logs -----------------------------------------------------------------------------------------

LINE = "12:00:00 INFO epoch {} loss: {} grad_norm=0.25 lr 0.0001 scale 65536.0\n"


def test_a_log_with_nan() -> None:
    log = "".join(LINE.format(row, "nan" if row > 40 else 0.5) for row in range(50))
    reading = symptoms.index().read(log)
    (sight,) = reading.sights
    assert (sight.row, sight.count) == (42, 9)
    assert "loss: nan" in sight.line
    assert found(log) == found("loss nan")


def test_a_healthy_log() -> None:
    log = "".join(LINE.format(row, 1 / (row + 1)) for row in range(50))
    assert (
        symptoms.index().read(f"{log}val_loss improved from inf to 0.3, memory 2.1\n").matches == ()
    )


def test_errors_come_before_nan_and_warnings_after_it() -> None:
    warning = "a.py:1: FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated. Please use "
    warning += "`torch.amp.autocast('cuda', args...)` instead.\n"
    log = f"{warning}loss nan\n{TRACEBACK}"
    codes = found(log)
    assert codes[:2] == ["AMP103", "AMP105"]
    assert "AMP104" in codes[2:-1]
    assert codes[-1] == "AMP401"


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0", ""),
        ("OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", ""),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "AMP207"),
        ("{'loss': NaN, 'lr': 0.1}", "AMP104"),
        ("train_loss=0.5 grad_norm=inf", "AMP113"),
    ],
)
def test_lines_of_logs(line: str, first: str) -> None:
    assert found(f"epoch 1\n{line}\n")[0] == first


def test_a_message_is_no_sight() -> None:
    """Of numbers that are not finite, or of memory: "No inf checks were recorded"."""
    for rule in RULES:
        for each in of(rule):
            if each.message:
                said = f"Traceback (most recent call last):\n{each.text}\n"
                assert symptoms.index().read(said).sights == (), said


def test_the_last_error_is_known() -> None:
    reading = symptoms.index().read("a\nKeyError: 'b'\nc\nValueError: d\ne\n")
    assert reading.matches == ()
    assert reading.last_error == "ValueError: d"


def calls(text: str) -> int:
    """How many functions reading a text calls, those of C included."""
    count = 0

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    index = symptoms.index()
    sys.setprofile(profile)
    try:
        index.read(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "line",
    [
        LINE.format(1, "nan"),
        LINE.format(1, 0.5),
        "nan ",
        "{'loss': NaN, 'grad': inf} ",
        "expected scalar type ",
        "RuntimeError: unscale_() has already been called on this optimizer since the last ",
        "\n",
        "Error: \n",
        '  File "a.py", line 1\n',
        "\u0130\u00df\ud800\x00\n",
    ],
    ids=range(10),
)
def test_time_is_linear(line: str) -> None:
    """Twice as long a log takes twice as many calls, whatever is in it."""
    symptoms._meaning.cache_clear()
    calls(line * 2000)
    once, twice, four = (calls(line * count) for count in (2000, 4000, 8000))
    assert twice <= 2.1 * once + 500
    assert four <= 2.1 * twice + 500
