"""A learning curve from records: to a file, and in one line for the terminal."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from munchausen._src.evidence.figures.style import COLOURS, alone, thousands

_BARS = "▁▂▃▄▅▆▇█"


def curves(rows: list[dict[str, Any]], column: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each agent its steps, and the values of its seeds [seeds, steps]."""
    table: dict[str, dict[int, dict[int, float]]] = {}
    for row in rows:
        value = row[column] if row[column] is not None else np.nan
        table.setdefault(row["agent"], {}).setdefault(row["seed"], {})[row["step"]] = value
    result = {}
    for agent, seeds in table.items():
        steps = sorted(set.intersection(*(set(s) for s in seeds.values())))
        values = np.array([[seed[t] for t in steps] for seed in seeds.values()])
        result[agent] = (np.array(steps), values)
    return result


def seed_mean(values: np.ndarray) -> np.ndarray:
    """The mean over seeds [seeds, steps] at the steps where there is one."""
    known = np.isfinite(values).any(axis=0)
    return np.nanmean(values[:, known], axis=0) if known.any() else np.zeros(0)


def sparkline(values: np.ndarray, width: int = 40) -> str:
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return ""
    if len(values) > width:
        values = np.array([part.mean() for part in np.array_split(values, width)])
    low, high = values.min(), values.max()
    levels = np.zeros(len(values)) if high == low else (values - low) / (high - low)
    return "".join(_BARS[round(level * (len(_BARS) - 1))] for level in levels)


def save_learning_curve(
    rows: list[dict[str, Any]], path: Path, *, title: str, references: dict[str, float]
) -> None:
    """Score of the last 100 episodes over steps; a band from the least to the best seed."""
    figure = Figure(figsize=(6.4, 4.0), dpi=120, layout="constrained")
    axes = figure.subplots()
    found = curves(rows, "score_100").items()
    for colour, (agent, (steps, values)) in zip(COLOURS * 3, found, strict=False):
        known = ~np.isnan(values).all(axis=0)
        steps, values = steps[known], values[:, known]
        label = agent if len(values) == 1 else f"{agent}, mean of {len(values)} seeds"
        mean = np.nanmean(values, axis=0)
        axes.plot(steps, mean, color=colour, lw=2, label=label, marker=alone(steps))
        if len(values) > 1:
            limits = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            axes.fill_between(steps, *limits, color=colour, alpha=0.2, lw=0)
    low, high = axes.get_ylim()
    for style, (label, score) in zip(("--", ":", "-."), references.items(), strict=False):
        line = {"color": "0.45", "lw": 1, "ls": style}
        # One far from a short run's curve would press it flat.
        if 2 * low - high <= score <= 2 * high - low:
            axes.axhline(score, label=f"{label} ({score:g})", **line)
        else:
            where = "above" if score > high else "below"
            axes.plot([], [], label=f"{label} ({score:g}, {where})", **line)
    axes.set(title=title, xlabel="steps", ylabel="return, mean of the last 100 episodes")
    axes.xaxis.set_major_formatter(thousands)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path)
