"""Names of rows and columns in files whose formats forbid some characters, and back.

Both ways of writing are one to one. A character that a format forbids becomes ``~`` and its code point in
hexadecimal, ended by ``~``: a blank is ``~20~``. In LP files square brackets, which mean quadratic terms there, are
written as round ones: ``share[u1,V100]`` is ``share(u1,V100)``.
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
_NUMBER = re.compile(r"e[-+\d]|inf|nan", re.IGNORECASE)  # what readers take for the start of a number
_MPS_PLAIN = frozenset(chr(code) for code in range(33, 127)) - {"~"}
_ESCAPED = re.compile(r"~([0-9a-f]+)~")


def _escape(char: str) -> str:
    return f"~{ord(char):x}~"


def lp_name(name: str) -> str:
    """``name`` as an LP file may hold it: no blanks, brackets or signs, and nothing that reads as number or keyword.

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
    """The name that :func:`lp_name` has written as ``text``."""
    return _unescape(text.replace("(", "[").replace(")", "]"))


def mps_name(name: str) -> str:
    """``name`` as a free MPS file may hold it: no blanks, nothing outside ASCII, no mark of a comment in front.

    Examples
    --------
    >>> mps_name("share[u 1,V100]")
    'share[u~20~1,V100]'
    """
    text = "".join(c if c in _MPS_PLAIN else _escape(c) for c in name)
    return _escape(name[0]) + text[1:] if text and text[0] in "*$" else text


def from_mps_name(text: str) -> str:
    """The name that :func:`mps_name` has written as ``text``."""
    return _unescape(text)


def objective_name(rows: Sequence[str]) -> str:
    """A name for the objective that no row has in a file: neither way of writing leaves a single ``~``."""
    return "objective" if "objective" not in rows else "~objective"


def constant_name(columns: Sequence[str]) -> str:
    """A name for the column that stands for the objective's constant, as :func:`objective_name`."""
    return "constant" if "constant" not in columns else "~constant"


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
