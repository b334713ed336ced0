"""What happens under the hood (Sec. 3 of the paper): one function a figure, from plain arrays."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from munchausen._src.evidence.figures.style import COLOURS

_DASHES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P")


def averaging(study: dict[str, Any], horizons: dict[str, Any], path: Path) -> None:
    """Loss over iterations, and at the end over horizons, with the same noise for all schemes."""
    figure, (left, right) = _panels(2)
    losses = {name: x.mean(axis=0) for name, x in study["losses"].items()}
    _curves(left.loglog, study["iterations"], losses)
    left.set(
        xlabel="iteration k",
        ylabel=r"$\|q_* - q_{\pi_{k+1}}\|_\infty$, mean over MDPs",
        title=f"errors average out over iterations (γ = {study['discount']:g})",
    )
    left.legend(frameon=False, fontsize=8, loc="lower left")
    losses = {name: x.mean(axis=1) for name, x in horizons["losses"].items()}
    _curves(right.loglog, horizons["horizons"], losses, markers=True)
    right.set(
        xlabel="horizon 1/(1−γ)",
        ylabel="the same, last tenth of the iterations",
        title=f"… and at long horizons ({horizons['iterations']} iterations)",
    )
    _plain_ticks(right.xaxis, horizons["horizons"])
    figure.savefig(path)


def action_gap(study: dict[str, Any], path: Path) -> None:
    """Theorem 2: the measured factor on its right curve, and the printed curve."""
    figure, (axes,) = _panels(1)
    line, measured = study["line"], study["measured"]
    axes.semilogy(line, study["right"], color=COLOURS[0], lw=2, label="1/(1−α)")
    label = "(1+α)/(1−α), as printed"
    axes.plot(line, study["printed"], "--", color=COLOURS[1], lw=2, label=label)
    circles = {"color": COLOURS[6], "ms": 6, "mfc": "none", "mew": 1.5}
    label = f"measured, {len(measured)} MDPs"
    axes.plot(study["alphas"], measured.mean(axis=0), "o", label=label, **circles)
    axes.set(
        xlabel="α",
        ylabel=r"action gap of M-VI / that of $q_*^{(1-\alpha)\tau}$",
        title="how much M-VI increases the action gap",
    )
    _plain_ticks(axes.yaxis, (1, 2, 5, 10, 20, 40))
    axes.legend(frameon=False)
    figure.savefig(path)


def bounds(study: dict[str, Any], path: Path) -> None:
    """The truth under the bounds: means over MDPs, and the worst of them."""
    figure, (left, right) = _panels(2)
    k = study["iterations"]
    lines = (
        ("main text", "the main text's bound"),
        ("component-wise", "Corollary 1, no assumption"),
        ("truth", "truth"),
    )
    _with_worst(left, k, study, lines)
    left.set(
        xscale="log",
        xlabel="iteration k",
        ylabel=r"$\|q_* - q_{\pi_k}\|_\infty$",
        title=f"α = 1 (γ = {study['discount']:g}, Gaussian errors)",
    )
    left.legend(frameon=False, fontsize=8, loc="lower left")
    below = (("corollary 2", "Corollary 2, corrected"), ("truth below one", "truth"))
    _with_worst(right, study["short_iterations"], study, below)
    right.set(
        xlabel="iteration k",
        ylabel=r"$\|q_*^{(1-\alpha)\tau} - q_{\pi_{k+1}}^{(1-\alpha)\tau}\|_\infty$",
        title="α = 0.9 (10 samples a state-action)",
    )
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def clipping(study: dict[str, Any], path: Path) -> None:
    """l0 caps the action gap, and what it cuts off no longer averages errors."""
    figure, (left, right) = _panels(2)
    x = study["optimal_gaps"].reshape(-1)
    order = np.argsort(x)
    shown = order[:: max(1, len(order) // 400)]
    for i, clip in enumerate(study["clips"]):
        y = study["gaps"][:, i].reshape(-1)
        label = "no clip" if np.isinf(clip) else f"l0 = {clip:g}"
        left.plot(x[shown], y[shown], _MARKERS[i], color=COLOURS[i], ms=2.5, label=label)
    line = np.array([0.0, x.max()])
    left.plot(line, line / (1 - study["alpha"]), color="0.4", lw=1, label="δ/(1−α)")
    left.set(
        xlabel=r"action gap of $q_*^{(1-\alpha)\tau}$",
        ylabel="action gap of M-VI's limit",
        title=f"clipping caps the gap (α = {study['alpha']:g})",
        xlim=(0, 1.5),
        ylim=(0, 12),
    )
    left.legend(frameon=False, fontsize=8, markerscale=2)
    places = np.arange(len(study["clips"]))
    losses = {"with errors": study["noisy_losses"], "without": study["exact_losses"]}
    losses = {name: x.mean(axis=0) for name, x in losses.items()}
    _curves(right.semilogy, places, losses, markers=True)
    right.set(
        xlabel="l0",
        ylabel=r"$\|q_* - q_\pi\|_\infty$, mean over MDPs",
        title="… and with it the averaging of errors",
    )
    right.set_xticks(places, ["−∞" if np.isinf(c) else f"{c:g}" for c in study["clips"]])
    right.legend(frameon=False)
    figure.savefig(path)


def policy_change(study: dict[str, Any], path: Path) -> None:
    """The implicit KL regularisation: policies change less from iteration to iteration."""
    figure, (left, right) = _panels(2)
    k = study["iterations"][1:]  # the first policy is uniform for all
    divergence = {name: _running_mean(x) for name, x in study["divergence"].items()}
    _curves(left.loglog, k, divergence, first=1)
    left.set(
        xlabel="iteration k",
        ylabel=r"KL$(\pi_{k+1}\|\pi_k)$, mean up to k",
        title="policies stay close to the last one",
    )
    left.legend(frameon=False, fontsize=8)
    _curves(right.loglog, k, {name: _running_mean(x) for name, x in study["switches"].items()})
    right.set(
        xlabel="iteration k",
        ylabel="share of states, mean up to k",
        title="… and greedy actions change less often",
    )
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def _panels(count: int) -> tuple[Any, Any]:
    figure = Figure(figsize=(4.6 * count + 0.6, 3.8), dpi=100, layout="constrained")
    panels = figure.subplots(1, count, squeeze=False)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.title.set_fontsize(10)
    return figure, panels


def _curves(
    draw: Any, x: Any, curves: dict[str, np.ndarray], first: int = 0, markers: bool = False
) -> None:
    """Told apart by colour and by dashes, so that a print without colours can be read."""
    looks = list(zip(COLOURS, _DASHES, _MARKERS, strict=False))[first:]
    for (colour, dashes, marker), (name, y) in zip(looks, curves.items(), strict=False):
        mark = marker if markers else None
        draw(x, y, label=name, color=colour, ls=dashes, lw=1.8, marker=mark, ms=4)


def _with_worst(axes: Any, x: Any, study: dict[str, Any], lines: Any) -> None:
    """Means over MDPs, and for the truth (the last of the lines) its worst MDP too."""
    means = {f"{label}, mean": study[key].mean(axis=0) for key, label in lines}
    _curves(axes.semilogy, x, means)
    key, label = lines[-1]
    worst = study[key].max(axis=0)
    axes.plot(x, worst, color=COLOURS[len(lines) - 1], lw=0.8, label=f"{label}, worst MDP")


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Of iterations 2.., over MDPs [MDPs, K] and over the iterations so far."""
    means = values.mean(axis=0)[1:]
    return np.cumsum(means) / np.arange(1, len(means) + 1)


def _plain_ticks(axis: Any, values: Any) -> None:
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(FixedLocator([]))
    axis.set_major_formatter(lambda x, _: f"{x:g}")
