"""Topics of speed and memory with little or nothing to say, and figures whose labels must not overlap."""

import itertools
import random

import pytest
import record_factory as make
from hand_made import inputs, won
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from kbverified.keys import ProblemKey
from kbverified.paper import build, style, table
from kbverified.paper.axes import short_names
from kbverified.paper.topics import deflation_figures, memory_figures, roofline_figures, speedups

TOPICS = ("verified", "memory", "arms", "deflation", "speedups", "roofline")
PROBLEMS = ["level1_1", "level1_2", "level2_1", "level3_1"]
LITTLE = {
    "no problem solved": [won("g", p, 0, None, verdict="wrong_value") for p in PROBLEMS],
    "one generator": [won("g", p, 0, 1.5, memory=1.5) for p in PROBLEMS],
    "no hardened verdict": [won("g", p, 0, 1.5, memory=1.5, hardened=None) for p in PROBLEMS],
    "no memory": [won("g", p, 0, 1.5) for p in PROBLEMS],
    "nothing judged": [won("g", p, 0, None, verdict=None, standard=None, hardened=None, dtype=None) for p in PROBLEMS],
    "no candidate": [],
    "one problem": [won("g", "level1_1", 0, 1.5, memory=0.5)],
}


@pytest.fixture(scope="module", params=LITTLE)
def little(request):
    names = ["level1_1"] if request.param == "one problem" else PROBLEMS
    return inputs(LITTLE[request.param], names, generators=["g"])


@pytest.mark.parametrize("name", TOPICS)
def test_little_data_is_said_and_never_a_crash(little, name):
    topic = build.topic(name)
    module = build.module_of(topic)
    tables = {made.name: made for made in module.tables(little)}
    assert sorted(tables) == sorted(topic.tables)
    for made in tables.values():
        assert "Conditions:" in made.note
        assert table.to_csv(made) and table.to_markdown(made) and table.to_latex(made)
    figures = module.figures(little) if topic.figures else {}
    assert sorted(figures) == sorted(topic.figures)
    for figure in figures.values():
        figure.draw_without_rendering()
    assert all(f.conditions and f.topic == name for f in module.findings(little))


def test_no_active_problem():
    key = ProblemKey("s", "level1_1")
    made = inputs([won("g", "level1_1", 0, 1.5)], {key: make.problem(key, degenerate=True)})
    for module in map(build.module_of, map(build.topic, TOPICS)):
        texts = [table.to_markdown(t) for t in module.tables(made)]
        assert all("0 active of 1 selected problems" in text for text in texts)
        assert {f.outcome for f in module.findings(made)} <= {"not measured"}
        if hasattr(module, "figures"):
            module.figures(made)


# --- labels -------------------------------------------------------------------------------------------------

NAMES = ("gpt-5.5", "gemini-3.1-pro", "gemini-3-flash", "claude-opus-4.8", "kimi-k2.6", "claude-opus-4.7", "sonnet-4.6")
FIGURES = {
    "deflation": deflation_figures.deflation,
    "speedups": speedups.distribution,
    "roofline": roofline_figures.roofline,
    "levels": lambda made, columns: memory_figures.levels(made, "allocator_peak", columns),
    "kernels": lambda made, columns: memory_figures.kernels(made, "allocator_peak", columns),
}


def many(names):
    draw = random.Random(5)
    problems = [f"level{level}_{i}" for level in (1, 2, 3) for i in range(1, 13)]
    rows = []
    for name in names:
        for problem in problems:
            speed, fraction = draw.lognormvariate(-0.3, 0.7), draw.uniform(0.02, 0.9)
            roofline = {
                "time_tf32_floor_ms": 1.0,
                "time_tf32_hard_floor_ms": 0.5,
                "time_tf32_baseline_roofline": fraction,
                "time_tf32_candidate_roofline": min(1.3, fraction * speed),
                "time_tf32_below_floor": fraction * speed > 1.12,
                "time_tf32_implausible": False,
            }
            arms = (speed * draw.uniform(1, 4), speed * draw.uniform(0.3, 1), speed)
            rows.append(won(name, problem, 0, arms, memory=draw.lognormvariate(0, 0.4), **roofline))
    return inputs(rows, problems)


@pytest.fixture(
    scope="module",
    params=[NAMES, NAMES[:1], [f"provider-{name}-with-high-reasoning-effort" for name in NAMES]],
    ids=["seven generators", "one generator", "long names"],
)
def made(request):
    return many(request.param)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("name", FIGURES)
def test_labels_do_not_overlap_and_lie_on_the_page(made, name, columns):
    figure = FIGURES[name](made, columns)
    style._freeze_layout(figure)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    shown = [t for t in texts if not _hidden_tick(t)]
    boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in shown]
    assert len(boxes) > 10
    width, height = canvas.get_width_height()
    for text, box in boxes:
        assert box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1, f"{text!r} is cut off"
    for (a, box_a), (b, box_b) in itertools.combinations(boxes, 2):
        across = min(box_a.x1, box_b.x1) - max(box_a.x0, box_b.x0)
        along = min(box_a.y1, box_b.y1) - max(box_a.y0, box_b.y0)
        assert across < 1 or along < 1, f"{a!r} overlaps {b!r} by {across:.0f} x {along:.0f} pixels"


def _hidden_tick(text):
    """Labels of ticks that lie outside the axis' limits are made and not drawn."""
    axes = text.axes
    if axes is None:
        return False
    for axis, limits, place in ((axes.xaxis, axes.get_xlim(), 0), (axes.yaxis, axes.get_ylim(), 1)):
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if text in (tick.label1, tick.label2):
                return not min(limits) <= text.get_position()[place] <= max(limits) or not tick.get_visible()
    return False


def test_shortened_names_stay_different():
    assert short_names(["gpt-5.5", "a" * 40]) == {"gpt-5.5": "gpt-5.5", "a" * 40: "a" * 8 + "…" + "a" * 9}
    alike = [f"with-the-same-start-{name}-and-end" for name in ("one", "two")]
    # Sixteen letters between two dots.
    assert list(short_names(alike).values()) == ["…e-same-start-one…", "…e-same-start-two…"]
    middles = [f"{k}{'a' * 20}{i}{'b' * 20}{k}" for i in range(12) for k in "xy"]
    found = short_names([*middles, "plain"])
    assert len(set(found.values())) == 25
    assert found["plain"] == "plain"
    assert max(map(len, found.values())) <= 20
