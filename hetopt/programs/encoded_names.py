"""Encoding of row and column names for file formats that forbid some characters, and decoding.

Both encodings are one to one. A forbidden character becomes its hexadecimal code point between tildes: a blank is
``~20~``. LP files use square brackets for quadratic terms, so names get round ones: ``share[u1,V100]`` becomes
``share(u1,V100)``.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_LP_PLAIN = frozenset(string.ascii_letters + string.digits + "_.,!#$%&;?@{}")
_LP_START = frozenset(string.ascii_letters + "_(~")
_LP_WORD = re.compile(
    r"max(imum|imi[sz]e)?|min(imum|imi[sz]e)?|st|s\.t\.|subject|bounds?|free|gen(erals?)?|int(egers?)?"
    r"|bin(ary|aries)?|semi|sos[12]?|end",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"e[-+\d]|inf|nan", re.IGNORECASE)  # readers parse this as the start of a number
_MPS_PLAIN = frozenset(chr(code) for code in range(33, 127)) - {"~"}
_ESCAPED = re.compile(r"~([0-9a-f]+)~")


def _escape(char: str) -> str:
    return f"~{ord(char):x}~"


def lp_name(name: str) -> str:
    """``name`` encoded for LP files: no blanks, brackets or signs, and no number or keyword.

    Examples
    --------
    >>> lp_name("envy_free.row[u1,u 2]")
    'envy_free.row(u1,u~20~2)'
    """
    brackets = {"[": "(", "]": ")"}
    text = "".join(brackets[c] if c in brackets else c if c in _LP_PLAIN else _escape(c) for c in name)
    if text and (text[0] not in _LP_START or _LP_WORD.fullmatch(text) or _NUMBER.match(text)):
        return _escape(name[0]) + text[1:]
    return text


def from_lp_name(text: str) -> str:
    """The name that :func:`lp_name` encodes as ``text``."""
    return _unescape(text.replace("(", "[").replace(")", "]"))


def mps_name(name: str) -> str:
    """``name`` encoded for free MPS files: no blanks, only ASCII, no leading comment character.

    Examples
    --------
    >>> mps_name("share[u 1,V100]")
    'share[u~20~1,V100]'
    """
    text = "".join(c if c in _MPS_PLAIN else _escape(c) for c in name)
    return _escape(name[0]) + text[1:] if text and text[0] in "*$" else text


def from_mps_name(text: str) -> str:
    """The name that :func:`mps_name` encodes as ``text``."""
    return _unescape(text)


def objective_name(rows: Sequence[str]) -> str:
    """A name for the objective that differs from all rows: neither encoding produces a single ``~``."""
    return "objective" if "objective" not in rows else "~objective"


def constant_name(columns: Sequence[str]) -> str:
    """A name for the column of the objective's constant, by the rule of :func:`objective_name`."""
    return "constant" if "constant" not in columns else "~constant"


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
