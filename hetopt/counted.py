"""Numbers with nouns in messages."""

from __future__ import annotations


def counted(number: float | str, noun: str) -> str:
    """``number`` and ``noun``, in the plural unless the number is 1: "1 GPU", "2 GPUs"; floats as by ``:g``.

    The noun's plural ends in "s". Text is a number that is formatted already.
    """
    text = number if isinstance(number, str) else f"{number:g}" if isinstance(number, float) else str(number)
    return f"{text} {noun}{'' if text == '1' else 's'}"
