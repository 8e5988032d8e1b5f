"""Types of values in files: numbers, fractions as text, names, and mappings that refuse unknown keys."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ModelWrapValidatorHandler, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from hetopt import checks

FRACTION = re.compile(r"([-+]?[0-9]{1,300})\s*/\s*([0-9]{1,300})")
LEAST_TEXT = r"^\s*\+?[0-9]{1,300}\s*/\s*(?=0*[1-9])[0-9]{1,300}\s*$"
"""A fraction >= 0, as a pattern of JSON Schema."""
MORE_TEXT = r"^(?=\s*\+?0*[1-9])" + LEAST_TEXT.removeprefix("^")


def wrong(wanted: str) -> PydanticCustomError:
    """An error whose message is the requirement."""
    return PydanticCustomError("wrong", "{wanted}", {"wanted": wanted})


def to_number(value: Any) -> Any:
    """Text such as ``"1/3"`` or ``"1e9"`` (all cells of a CSV file are text) as a number; other values unchanged."""
    if isinstance(value, str) and checks.NUMBER.fullmatch(value.strip()):
        return float(value)
    return _of_fraction(value)


def _of_fraction(value: Any) -> Any:
    """Text such as ``"1/3"``, for which YAML and JSON have no number, as a number; other values unchanged."""
    if isinstance(value, str) and (parts := FRACTION.fullmatch(value.strip())):
        over, under = int(parts[1]), int(parts[2])
        try:
            return over / under  # correctly rounded
        except ArithmeticError:
            return value
    return value


UNQUOTE = "leave out the quotes"
"""Advice for a number given as text, in a file."""


def _real(strict: bool, smallest: float = 0.0) -> Any:
    """A number, or a fraction as text: ``strict`` above zero, and no smaller than ``smallest`` unless it is zero."""

    def check(value: Any) -> float:
        number = _of_fraction(value)
        alternative = ", or a fraction such as 1/3"
        if wanted := checks.unfit(number, strict=strict, smallest=smallest, alternative=alternative, remedy=UNQUOTE):
            raise wrong(wanted)
        return float(number)

    limit = {"minimum": smallest} if smallest else {"exclusiveMinimum" if strict else "minimum": 0}
    kinds: list[Any] = [{"type": "number", **limit, "maximum": checks.MOST}]
    if smallest and not strict:
        kinds.append({"type": "number", "const": 0})
    kinds.append({"type": "string", "pattern": MORE_TEXT if strict else LEAST_TEXT})
    return BeforeValidator(check), WithJsonSchema({"anyOf": kinds})


def _whole(least: int) -> Any:
    def check(value: Any) -> int:
        if wanted := checks.unfit_count(value, least, remedy=UNQUOTE):
            raise wrong(wanted)
        return int(value)

    return (
        BeforeValidator(check),
        WithJsonSchema({"type": "integer", "minimum": least, "maximum": checks.MOST_COUNTED}),
    )


def _name(value: Any) -> str:
    if isinstance(value, (int, float)):
        raise wrong(f"text; put it in quotes: '{str(value).lower()}'")
    if not checks.is_text(value):
        raise wrong("a non-empty name on one line")
    return str(value)


Amount: TypeAlias = Annotated[float, *_real(strict=False)]
Positive: TypeAlias = Annotated[float, *_real(strict=True)]
Speed: TypeAlias = Annotated[float, *_real(strict=False, smallest=checks.LEAST)]
Weight: TypeAlias = Annotated[float, *_real(strict=True, smallest=checks.LEAST)]
Count: TypeAlias = Annotated[int, *_whole(0)]
Natural: TypeAlias = Annotated[int, *_whole(1)]
Name: TypeAlias = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string", "minLength": 1})]
Speeds: TypeAlias = dict[Name, Speed]


class Part(BaseModel):
    """A mapping in the file; the error for an unknown key names the nearest known one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any, handler: ModelWrapValidatorHandler[Part]) -> Part:
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data if isinstance(data, dict) else ():
            if key not in known:
                text = f"is an unknown key; {checks.choices(key, known)}"
                raise PydanticCustomError("unknown", "{text}", {"text": text, "key": key})
        return handler(data)
