"""Output of the command line: lines in any encoding, and progress; light, as every command imports it."""

from __future__ import annotations

import codecs
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from hetopt.checks import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

LINE_SECONDS = 60.0
"""Time between two lines about long work where standard error is no terminal."""

LETTERS = {
    "∞": "inf",
    "…": "...",
    "—": "-",
    "\N{EN DASH}": "-",
    "\N{NARROW NO-BREAK SPACE}": " ",
    "µ": "u",
    "✗": "x",
    "✓": "v",
    "─": "-",
}
"""Letters of the command line's own output -> replacement for encodings that lack them."""


def _readable(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    letters = problem.object[problem.start : problem.end]
    return "".join(LETTERS.get(letter, "?") for letter in letters), problem.end


codecs.register_error("hetopt.readable", _readable)


def forgive_encodings() -> None:
    """Make standard output and error replace letters that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="hetopt.readable")


def readable(text: str) -> str:
    """``text`` in the encoding of standard output, so that tables keep their columns."""
    from hetopt.presentation.terminal import OUT

    return text.encode(OUT.encoding, "hetopt.readable").decode(OUT.encoding)


CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\n\x07\x1b]*(?:\x07|\x1b\\)"  # sequences that style text, or set titles
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """``text`` without escape sequences, and with U+FFFD for other control characters than newlines and tabs.

    So text of jobs and hosts can neither steer a terminal nor change the direction in which a line is read.
    """
    return CONTROL.sub(lambda found: "" if len(found[0]) > 1 else "\N{REPLACEMENT CHARACTER}", text)


def print_json(data: object) -> None:
    """Print plain data on standard output; in it, a data frame is a list of records."""

    def records(frame: Any) -> Any:
        return json.loads(frame.to_json(orient="records", double_precision=15))

    print(json.dumps(data, indent=2, default=records))


def note(text: str) -> None:
    """Print one line on standard error."""
    print(f"hetopt: {text}", file=sys.stderr)


class Progress:
    """The finished part of long work, which calls :meth:`begin` or :meth:`update`.

    ``what`` is the work in a few words, ``noun`` what one of its steps is called, of which there are ``total`` (None:
    unknown).
    """

    def __init__(self, what: str, total: int | None, noun: str) -> None:
        self.what, self.total, self.noun = what, total, noun
        self._began = time.monotonic()
        self._parts: dict[object, float] = {}
        self._newest = ""

    def begin(self, name: str) -> None:
        """A step begins, and those before it are finished."""
        self.finish()
        self._parts[len(self._parts), name] = 0.0
        self._newest = name

    def update(self, key: object, part: float = 1.0) -> None:
        """The part of a step, from 0 to 1, that is finished; steps may be simultaneous."""
        self._parts[key] = part
        self._newest = str(key)

    def finish(self) -> None:
        """The steps so far are finished."""
        self._parts = dict.fromkeys(self._parts, 1.0)

    def line(self) -> str:
        """The state in words, with the time to the end by the mean speed so far, if it is known."""
        done, spent = sum(self._parts.values()), time.monotonic() - self._began
        words = [] if self.total is None else [f"{int(done)} of {counted(self.total, self.noun)}"]
        words.append(in_words(spent))
        if self.total and done:
            words.append(f"about {in_words(spent * max(self.total / done - 1, 0.0))} left")
        return f"{self.what}: {', '.join(words)}"

    def __rich__(self) -> RenderableType:
        """The state in words, the newest step and a bar; only the step's name is cut to the width of the terminal."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        step = Text(self._newest, "dim", no_wrap=True, overflow="ellipsis")
        return Group(Text(self.line()), step, ProgressBar(self.total, sum(self._parts.values()), width=40))


@contextmanager
def progress(what: str, total: int | None = None, noun: str = "step") -> Iterator[Progress]:
    """Show the progress of long work and its time to the end, see :func:`shown_until_done`."""
    work = Progress(what, total, noun)
    with shown_until_done(work):
        yield work
        work.finish()


class LongWork(Protocol):
    """Long work whose state can be shown."""

    def line(self) -> str:
        """The state in one line."""
        ...

    def __rich__(self) -> RenderableType:
        """The state in a terminal."""
        ...


@contextmanager
def shown_until_done(work: LongWork) -> Iterator[None]:
    """Show the state of long work on standard error.

    A terminal shows it until the work ends; elsewhere a line follows every :data:`LINE_SECONDS`.
    """
    from hetopt.presentation.terminal import ERR

    if ERR.is_terminal:
        from rich.live import Live

        with Live(work, console=ERR, transient=True):
            yield
        return
    end = Event()

    def print_lines() -> None:
        while not end.wait(LINE_SECONDS):
            note(work.line())

    lines = Thread(target=print_lines, daemon=True)
    lines.start()
    try:
        yield
    finally:
        end.set()
        lines.join()


def in_words(seconds: float) -> str:
    """A time in seconds, minutes or hours, without fractions."""
    size, unit = next((pair for pair in ((3600, "h"), (60, "min")) if seconds >= 2 * pair[0]), (1, "s"))
    return f"{seconds / size:.0f} {unit}"


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    from importlib.metadata import version
    from platform import python_version

    packages = {name: version(name) for name in ("hetopt", "pyomo", "highspy", "numpy")}
    return {**packages, "python": python_version()}
