"""Pictures show the numbers they are given, in each format, and refuse a path they cannot write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from matplotlib.figure import Figure

import hetopt
from hetopt.errors import InvalidOption
from hetopt.models import oef
from hetopt.pictures import check_picture_path, draw, draw_envy, draw_prices, draw_shares, envy_ratio, save
from hetopt.proofs.strategies import tenant_instances
from hetopt.tolerances import EQUAL

INST = hetopt.Instance.from_speedups([[1, 2], [1, 5]], capacity=[1, 1])
RESULT = hetopt.solve(oef.cooperative(), INST)
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("ending", MAGIC)
def test_a_picture_is_written_in_each_format(tmp_path: Path, ending: str) -> None:
    path = save(RESULT, tmp_path / f"out{ending}", "title")
    assert path.read_bytes().startswith(MAGIC[ending])


def test_bars_are_as_long_as_the_gpus() -> None:
    axes = Figure().subplots()
    draw_shares(axes, RESULT)
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == pytest.approx([1, 0, 0.25, 0.75], abs=EQUAL)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["GPU1", "GPU2"]


def test_prices_are_drawn_only_where_there_are_any() -> None:
    axes = Figure().subplots()
    assert draw_prices(axes, RESULT)
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([1.75, 3.5], rel=EQUAL)
    assert not draw_prices(Figure().subplots(), hetopt.Plan(RESULT.entities, np.eye(2)))
    assert len(draw(hetopt.Plan(RESULT.entities, np.eye(2))).axes) == 3, "shares, envy, and its colour bar"


def test_the_envy_matrix_says_by_how_much() -> None:
    """u1's rate with u2's GPUs is 1.5 against its own 1.5; u2's with u1's is 2.25 against 3.75."""
    axes = Figure().subplots()
    draw_envy(axes, RESULT)
    assert [text.get_text() for text in axes.texts] == ["1.00", "1.00", "0.60", "1.00"]


@given(tenant_instances(weighted=True, zeros=True))
def test_envy_ratios_equal_a_plain_loop(instance: hetopt.Instance) -> None:
    entities = instance.entities()
    rng = np.random.default_rng(0)
    gpus = rng.integers(0, 3, entities.shape).astype(float)
    ratio = envy_ratio(entities, gpus)
    for e in range(len(entities.names)):
        own = float(entities.speed[e] @ gpus[e]) / float(entities.weight[e])
        for o in range(len(entities.names)):
            other = float(entities.speed[e] @ gpus[o]) / float(entities.weight[o])
            expected = other / own if own > 0 else (np.inf if other > 0 else 1.0)
            assert ratio[e, o] == pytest.approx(expected, rel=EQUAL)


def test_many_tenants_stay_readable() -> None:
    many = hetopt.Instance.from_speedups(1 + np.arange(600.0).reshape(300, 2) / 600, capacity=[30, 30])
    axes = Figure().subplots()
    draw_shares(axes, hetopt.Plan(many.entities(), np.ones((300, 2))))
    assert len(axes.get_yticks()) == 40
    assert "40 of 300" in axes.get_title()


@pytest.mark.parametrize(("name", "message"), [("x.gif", "must end in one of .png"), ("no/x.png", "does not exist")])
def test_a_path_that_cannot_be_written_is_refused_first(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        check_picture_path(tmp_path / name)
