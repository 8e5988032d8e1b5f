"""Pictures of jobs' graphs show which replica is where and what goes between servers, and stay readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from hetopt import instances
from hetopt.data.workload import Job, Stage
from hetopt.models.asrpt import HeavyEdge, LocalSearch, Pipeline, Servers
from hetopt.presentation.allocation_pictures import save_figure
from hetopt.presentation.job_graph_pictures import (
    BETWEEN,
    MOST_COLUMNS,
    MOST_EDGES,
    MOST_PANELS,
    NODE,
    WITHIN,
    draw_mapping,
    layout_graph,
)
from hetopt.presentation.style import LIGHT, contrast
from hetopt.stages.job_graph import AllReduce
from hetopt.stages.mapping import GPUMapping


def named(name: str, job: str, gpu: str = "V100") -> GPUMapping:
    instance = instances.load(name)
    return LocalSearch()(Pipeline.of(instance.job[job], gpu), Servers.of(instance, gpu))


def made(replicas: list[int], free: list[int] | dict[str, int], name: str = "job", **words: Any) -> GPUMapping:
    stages = tuple(Stage(k, 1, 1, 1e9, 1e7, token_bytes=words.get("tokens", 0)) for k in replicas)
    job = Job(name, {"G": 1.0}, 1, sum(replicas), stages=stages)
    return HeavyEdge(words.get("allreduce", AllReduce.RING))(Pipeline.of(job), Servers.alike(free))


FIG2 = named("asrpt/fig2", "job", "GPU")


def words(figure: Figure) -> list[str]:
    """Every text of the picture."""
    return [text.get_text() for text in texts(figure)]


def texts(figure: Figure) -> list[Text]:
    return [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]


def lines(figure: Figure, colour: str) -> tuple[list[Any], list[float]]:
    """Lines of that colour in the first panel, without the legend's, and their widths."""
    found = [own for own in figure.axes[0].collections if isinstance(own, LineCollection)]
    graph = next(own for own in found if to_hex(np.asarray(own.get_color())[0].tolist()) == colour)
    return graph.get_segments(), np.asarray(graph.get_linewidth()).tolist()


def test_the_papers_example_is_shown_in_numbers() -> None:
    """Fig. 2: stages 1 and 2 on server 1; four links of 1 MB and an AllReduce of 5 MB are cut."""
    figure = draw_mapping(FIG2)
    texts = words(figure)
    assert texts[1:3] == ["job by local: 36.4 ms per iteration", "9 MB of 43 MB per iteration go between servers"]
    assert {
        "server1: 4 GPUs",
        "server2: 1 GPU",
        "server3: 1 GPU",
        "S3 \N{MULTIPLICATION SIGN} 2",
        "within a server",
    } <= set(texts)
    assert "width: bytes per iteration, up to 20 MB" in texts
    cut, widths = lines(figure, BETWEEN)
    assert len(cut) == 5
    inside, others = lines(figure, WITHIN)
    assert len(inside) == 6
    thin, five, ten, twenty = sorted({round(w, 6) for w in [*widths, *others]})
    assert (twenty - thin) / (ten - thin) == pytest.approx(19 / 9)
    assert (five - thin) / (ten - thin) == pytest.approx(4 / 9)


def numbers(figure: Figure) -> dict[tuple[float, float], str]:
    """Number in each node of the first panel -> its place; the legend's own numbers are last."""
    found = {}
    for text in figure.axes[0].texts:
        if text.get_text().isdigit():
            x, y = text.get_position()
            found[round(float(x), 3), round(float(y), 3)] = text.get_text()
    return found


def coloured(figure: Figure) -> dict[tuple[float, float], tuple[str, bytes]]:
    """Place of each marker in the first panel -> its colour and shape."""
    found = {}
    for own in figure.axes[0].collections:
        if isinstance(own, PathCollection):
            shape = np.asarray(own.get_paths()[0].vertices).tobytes()
            places, fills = np.asarray(own.get_offsets()), np.asarray(own.get_facecolor())
            for (x, y), fill in zip(places.tolist(), fills.tolist(), strict=True):
                found[round(x, 3), round(y, 3)] = to_hex(fill).upper(), shape
    return found


@pytest.mark.parametrize("mapping", [FIG2, made([6, 9, 4], [5, 5, 4, 3, 1, 1]), made([36], [1] * 36)])
def test_servers_differ_by_number_colour_and_shape(mapping: GPUMapping) -> None:
    """A vertex and its server in the legend look alike, and no other server looks so."""
    figure = draw_mapping(mapping)
    number, look = numbers(figure), coloured(figure)
    assert set(number) == set(look), "every marker has a number"
    by_number = {n: {look[at] for at in number if number[at] == n} for n in set(number.values())}
    assert all(len(looks) == 1 for looks in by_number.values())
    assert (
        len({next(iter(looks)) for looks in by_number.values()}) == len(by_number) == len(set(mapping.where.values()))
    )
    placed = sorted(list(number.values())[: len(mapping.graph)])
    order = list(dict.fromkeys(sorted(mapping.where.values(), key=mapping.servers.names.index)))
    assert placed == sorted(str(order.index(server) + 1) for server in mapping.where.values())


@settings(max_examples=20)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.lists(st.integers(1, 4), min_size=20, max_size=20))
def test_lines_are_the_edges_of_the_graph(replicas: list[int], free: list[int]) -> None:
    """Ends of lines are places of vertices; dashed ones are those that networkx finds between servers."""
    mapping = made(replicas, free)
    graph, where = mapping.graph.networkx(), mapping.where
    cut = sum(where[a] != where[b] for a, b in graph.edges)
    figure = draw_mapping(mapping)
    places = set(coloured(figure))
    legend = 0 if not graph.edges else 1
    for colour, many in ((BETWEEN, cut), (WITHIN, graph.number_of_edges() - cut)):
        segments = lines(figure, colour)[0] if many else []
        assert len(segments) == many
        for own in segments:
            assert {(round(float(x), 3), round(float(y), 3)) for x, y in (own[0], own[-1])} <= places
    assert ("within a server" in words(figure)) == bool(legend)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_vertices_stand_apart_and_neighbours_beside_each_other(replicas: list[int]) -> None:
    places, heads = layout_graph(replicas)
    assert len({tuple(place) for place in places.tolist()}) == sum(replicas)
    assert (places >= 0).all()
    assert places[:, 0].max() < MOST_COLUMNS
    first = np.cumsum([0, *replicas[:-1]])
    for start, many, head in zip(first.tolist(), replicas, heads, strict=True):
        own = places[start : start + many]
        assert (np.abs(np.diff(own, axis=0)).sum(axis=1) == 1).all(), "the ring of a stage goes from place to place"
        assert head.tolist() == [(own[:, 0].min() + own[:, 0].max()) / 2, own[:, 1].min()]


def test_a_long_pipeline_is_folded_where_it_touches() -> None:
    """64 stages of one replica: seven bands of ten, forth and back; a step down is two rows."""
    places, _ = layout_graph([1] * 64)
    assert places.max(axis=0).tolist() == [9, 12]
    steps = np.abs(np.diff(places, axis=0)).tolist()
    assert sorted(steps) == [[0, 2]] * 6 + [[1, 0]] * 57


LONG = {f"node-{i}.rack-{i % 7}.a-very-long-name.example.org": 2 for i in range(32)}
CROWDED = {
    "fig2": [FIG2],
    "a chain of 64": [named("asrpt/gpt-175b", "gpt-175b-64")],
    "64 replicas on 64 servers": [made([64], [1] * 64)],
    "64 GPUs, long names": [made([8] * 8, LONG, "a job with a rather long name that says all", tokens=1e6)],
    "trees": [made([3, 16, 7], [4] * 8, allreduce=AllReduce.TREE)],
    "one GPU": [made([1], [1])],
    "many jobs": [made([k, 2], [3] * 9) for k in range(1, 8)],
}


@pytest.mark.parametrize("case", CROWDED)
def test_texts_stay_apart_within_the_page(case: str) -> None:
    """Measured in the drawn figure; a number lies within its node."""
    figure = draw_mapping(CROWDED[case], "a title")
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    for i, (label, box) in enumerate(boxes):
        assert min(box.x0, box.y0) >= 0, label
        assert box.x1 <= figure.bbox.x1, label
        assert box.y1 <= figure.bbox.y1, label
        assert not [other for other, their in boxes[:i] if box.overlaps(their)], label
        if label.isdigit():
            assert max(box.width, box.height) < NODE * figure.dpi
    assert figure.get_size_inches().max() < 40, "inches"


def test_of_many_jobs_the_first_are_drawn_and_the_page_states_it() -> None:
    figure = draw_mapping([FIG2] * (MOST_PANELS + 1), "fig2")
    assert words(figure).count("job by local: 36.4 ms per iteration") == MOST_PANELS
    assert words(figure)[0] == f"fig2: the first {MOST_PANELS} of {MOST_PANELS + 1} jobs"


def test_of_very_many_edges_the_heaviest_are_drawn() -> None:
    """80 x 80 links, and two rings that carry more."""
    figure = draw_mapping(made([80, 80], [200]))
    segments, widths = lines(figure, WITHIN)
    assert len(segments) == MOST_EDGES
    assert sum(w == max(widths) for w in widths) == 160


def test_a_server_looks_alike_in_all_panels() -> None:
    """server2 is the first that the second job uses; it keeps the number that it has for the first."""
    free = {"server1": 2, "server2": 2}
    two = made([2, 2], free), made([1, 1], {"server2": 2}, "other")
    figure = draw_mapping(two)
    texts = words(figure)
    second = texts[next(i for i, text in enumerate(texts) if text.startswith("other by")) :]
    assert [text for text in second if text.isdigit()] == ["2", "2", "2"]


def test_numbers_are_readable_on_every_colour() -> None:
    """WCAG asks for a contrast of 3 between parts of a picture; here it is 4 and more."""
    figure = draw_mapping(made([len(LIGHT)], [1] * len(LIGHT)))
    fills = coloured(figure)
    for text in figure.axes[0].texts:
        if text.get_text().isdigit():
            at = round(float(text.get_position()[0]), 3), round(float(text.get_position()[1]), 3)
            assert contrast(fills[at][0], str(text.get_color())) > 4


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_odd_names_are_kept_in_every_format(tmp_path: Path, ending: str) -> None:
    """Warnings are errors here."""
    odd = {"机器": 2, "$\\alpha$ [x]": 1, "_hidden <b>": 1}
    path = save_figure(draw_mapping(made([2, 2], odd, "Zoë's $job$"), "机器 $x$"), tmp_path / f"out{ending}")
    assert path.stat().st_size > 1000
    if ending == ".svg":
        text = path.read_text(encoding="utf-8")
        for shown in ("机器", "$\\alpha$ [x]", "_hidden &lt;b&gt;", "$job$"):
            assert shown in text


def test_without_edges_there_is_nothing_to_say_of_them() -> None:
    texts = words(draw_mapping(made([1], [1])))
    assert "its replicas exchange nothing" in texts
    assert not [text for text in texts if "server" in text and "server1" not in text]
