"""What words are about, whichever somebody chooses: "doesn't converge" and "plateau" are one thing.

Small tables, plain string methods, and time that is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SUBJECTS = frozenset({
    "loss", "gradient", "weight", "scale", "norm", "step", "batch", "output", "network", "lr",
    "value", "log", "error", "number", "float16", "bfloat16", "float32", "autocast", "epoch",
})  # fmt: skip
"""What something is said about; they alone say nothing."""

_WORD_CHARACTERS = "".join(
    chr(code) if chr(code).isalnum() or chr(code) == "." else " " for code in range(128)
)
_STOPWORDS = frozenset({
    "a", "about", "after", "all", "also", "although", "amp", "an", "and", "any", "are", "as",
    "asked", "at", "be", "because", "become", "becomes", "been", "but", "by", "can", "did", "do",
    "does", "doing", "done", "first", "for", "from", "get", "getting", "gets", "give", "gives",
    "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "just", "keep", "keeps",
    "made", "make", "makes", "making", "me", "mixed", "my", "of", "on", "one", "only", "or", "our",
    "over", "own", "precision", "pytorch", "really", "remain", "remains", "run", "running", "said",
    "so", "some", "stay", "stays", "such", "than", "that", "the", "their", "them", "then", "there",
    "they", "this", "to", "too", "torch", "train", "training", "turn", "turns", "us", "very", "was",
    "we", "were", "what", "when", "where", "which", "while", "who", "whose", "why", "will", "with",
    "without", "you", "your",
})  # fmt: skip
_LEFT_OVER = frozenset({"no", "not", "go", "down", "up", "stop", "out", "off"})
"""Words that mean something in a phrase only."""
_IRREGULAR = {
    "goes": "go", "going": "go", "doesnt": "not", "dont": "not", "isnt": "not", "never": "not",
    "wont": "not", "cant": "not", "didnt": "not",
}  # fmt: skip
_PHRASES = {
    "inf": ("not finite", "non finite"),
    "nan": ("not number",),
    "stuck": (
        "not go down", "not decrease", "not drop", "not fall", "not reduce",
        "not learn", "not converge", "not improve", "not change", "not move", "not update",
        "not optimize", "not progress", "no progress", "no learning", "no convergence", "no update",
        "nothing learnt", "nothing learned", "learns nothing", "stop going down", "stop decreasing",
        "stop learning", "stop improving", "stand still", "same loss", "loss same",
    ),
    "diverge": ("blow up", "go up"),
    "oom": ("out memory",),
    "scale": ("loss scale", "loss scaler", "grad scaler"),
    "lr": ("learning rate",),
    "useless": (
        "no effect", "not work", "not do anything", "no difference", "no speedup",
        "not fast", "not faster", "not quicker", "not less", "not lower", "not save",
    ),
    "bfloat16": ("bfloat 16",),
}  # fmt: skip
_WORDS = {
    "bfloat16": "bf16",
    "deprecated": "deprecation futurewarning deprecationwarning",
    "diverge": "explode explosion unstable instability divergence",
    "float16": "fp16",
    "float32": "fp32",
    "gradient": "grad gnorm",
    "huge": "large larger big bigger enormous high higher",
    "inaccurate": "imprecise inexact accuracy wrong",
    "inf": "infinity infinite nonfinite",
    "jump": "spike oscillate double",
    "nan": "nans",
    "network": "model gan",
    "oom": "outofmemoryerror memory",
    "resume": "restart reload restore",
    "same": "equal identical",
    "scale": "scaler",
    "skip": "skipped",
    "slow": "slowly slower speed long longer",
    "stuck": "constant flat plateau stall stagnate frozen freeze",
    "weight": "param parameter",
    "zero": "0 vanish underflow disappear collapse",
}


def split(text: str) -> list[str]:
    """The words of a question; "doesn't" as two."""
    return plain_words(text.lower().replace("\u2019", "'").replace("n't", " not"))


def plain_words(text: str) -> list[str]:
    """The words and numbers of a text in lower case: `lr_scheduler.step` is three, 0.0 is 0."""
    words: list[str] = []
    for word in text.translate(_WORD_CHARACTERS).split():
        if "." not in word:
            words.append(word)
        elif word.replace(".", "", 1).isdigit():
            words.append(word.rstrip("0").rstrip(".") or "0")
        else:
            words += filter(None, word.split("."))
    return words


def concepts(words: Iterable[str]) -> frozenset[str]:
    """What words speak of, whichever they are."""
    return frozenset(concept for _, concept in folded(words) if concept not in _LEFT_OVER)


def _stem(word: str) -> str:
    """A word without its ending, the same for all of its forms."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _stems(words: Iterable[str]) -> list[str]:
    return [_IRREGULAR.get(word) or _stem(word) for word in words if word not in _STOPWORDS]


_CANONICAL = {
    _stem(word): concept for concept, words in _WORDS.items() for word in (concept, *words.split())
} | {_stem(concept): concept for concept in (*SUBJECTS, *_PHRASES)}
MEANT = frozenset({*SUBJECTS, *_PHRASES, *_WORDS})
"""The concepts of these tables; any other word stands for itself."""
_FOLDS = {
    tuple(_stems(phrase.split())): concept
    for concept, phrases in _PHRASES.items()
    for phrase in phrases
}
_LONGEST = max(map(len, _FOLDS))


def folded(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The stems of words, those of a phrase as one, and the concepts that they stand for."""
    stems, at = _stems(words), 0
    while at < len(stems):
        for length in range(min(_LONGEST, len(stems) - at), 1, -1):
            phrase = tuple(stems[at : at + length])
            if phrase in _FOLDS:
                yield " ".join(phrase), _FOLDS[phrase]
                at += length
                break
        else:
            yield stems[at], _CANONICAL.get(stems[at], stems[at])
            at += 1
