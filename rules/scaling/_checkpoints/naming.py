"""What the names of functions and keys tell about saving and training."""

from __future__ import annotations

import re

import libcst as cst

from amp_lint.vocabulary.amp import LOAD_STATE_DICT, STATE_DICT
from amp_lint.vocabulary.meaning import Role
from amp_lint.vocabulary.table import words
from amp_lint.vocabulary.written import SCALER

STATE_METHODS = STATE_DICT.words | LOAD_STATE_DICT.words
SAVES = re.compile(
    r"^(?!on_|before_|pre_).*(save|checkpoint|ckpt|snapshot|dump|upload)", re.IGNORECASE
)
HARMLESS = frozenset({"print", "len", "str", "type", "isinstance", "info", "debug", "warning"})
LOOKED_UP = frozenset({"get", "pop"})
OF_SCALER = re.compile(SCALER, re.IGNORECASE)
SETTING = re.compile(
    r"(^|_)(apply|use|enabled?|disabled?|init|growth|backoff|factor|interval|steps?|tweaks?|kwargs"
    r"|args|config|cfg|type|window|path|file|filename|dir)(_|$)",
    re.IGNORECASE,
)
"""In the names of what says how a scaler is made or used."""
TRAINS = re.compile(r"^_?train(?!er)|_train$|_epoch$")
NOT_WORD = re.compile(r"\W")


def names_scaler(key: str) -> bool:
    """Whether a string is one word that names a scaler, and no setting of one."""
    if NOT_WORD.search(key) or SETTING.search(key) or key in words(Role.SCALER):
        return False
    return bool(OF_SCALER.search(key))


def last(node: cst.BaseExpression) -> str:
    """The last name of ``a.b.c`` or ``a.b[i]``."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
