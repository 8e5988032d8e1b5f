"""Numbers with nouns in messages."""

import pytest

from hetopt.checks import counted


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1 GPU"), (0, "0 GPUs"), (2, "2 GPUs"), (-1, "-1 GPUs"), (1.0, "1 GPU"), (1.5, "1.5 GPUs"), ("1", "1 GPU")],
)
def test_only_one_is_singular(number: float | str, text: str) -> None:
    assert counted(number, "GPU") == text
