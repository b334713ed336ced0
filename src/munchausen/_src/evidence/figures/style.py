"""How figures look: colours that colour-blind readers tell apart, lines that print in grey."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from munchausen._src.evidence.metrics.reference import frames_per_step

# Okabe and Ito's palette: told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Seven more agents get the same colours dashed, and then dotted.
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
BAND_ALPHA = 0.18


class Style(NamedTuple):
    color: str
    linestyle: Any


def agent_styles(agents: Iterable[str]) -> dict[str, Style]:
    """The same agent looks the same in every figure made from the same list."""
    return {
        agent: Style(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)])
        for i, agent in enumerate(agents)
    }


def new_figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def literal(text: str) -> str:
    """A name as it is: Matplotlib takes what stands between two dollars for mathematics."""
    return text.replace("$", r"\$")


def tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, lw=0.6)


def step_label(games: Iterable[str]) -> tuple[str, int]:
    """The name of the time axis and what a step counts there: frames, where that is the same
    number for all games and more than one."""
    counts = {frames_per_step(game) for game in games}
    frames = counts.pop() if len(counts) == 1 else 1
    return ("frames", frames) if frames > 1 else ("steps", 1)


def thousands(x: float | int, _position: Any = None) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= unit:
            return f"{x / unit:g}{name}"
    return f"{x:g}"


def percent(x: float | int, _position: Any = None) -> str:
    return f"{100 * x:g}%"


def legend(figure: Figure, *panels: Any, fontsize: float = 9.0) -> None:
    """Below all panels, so that it hides no curve; in as many columns as fit."""
    lines = {line.get_label(): line for axes in panels for line in axes.get_lines()}
    lines = {name: line for name, line in lines.items() if not str(name).startswith("_")}
    if not lines:
        return
    widest = 0.55 + 0.0095 * fontsize * max(len(str(name)) for name in lines)
    figure.legend(
        list(lines.values()),
        list(lines),
        loc="outside lower center",
        ncols=max(1, min(len(lines), int(figure.get_figwidth() / widest))),
        frameon=False,
        fontsize=fontsize,
    )


def save(figure: Figure, path: Path) -> list[Path]:
    """PNG and SVG, with the text of the SVG as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.name}):
        written = [path.with_name(path.name + suffix) for suffix in (".png", ".svg")]
        figure.savefig(written[0])
        figure.savefig(written[1], metadata={"Date": None})
    return written


def draw_curve(
    axes: Any, x: Any, values: Any, limits: Any, agent: str, style: Style, width: float = 1.8
) -> None:
    """An agent's line, and its interval where there is one."""
    mark = alone(values)
    axes.plot(x, values, lw=width, marker=mark, label=literal(agent), **style._asdict())
    if limits is not None:
        axes.fill_between(x, *limits, color=style.color, alpha=BAND_ALPHA, lw=0)


def alone(values: Any) -> str | None:
    """The marker of a line that is one point: a line has no width there."""
    return "o" if len(values) == 1 else None
