"""`munchausen theory`: every statement of the paper's analysis, with its residual."""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from munchausen._src.commands.console import table, whole
from munchausen._src.errors import refused
from munchausen._src.progress import show_counter

DESCRIPTION = (
    "Check every theorem, bound and identity of the paper on random MDPs, in double precision,\n"
    "and show beside each what the paper prints where that does not hold.\n"
    "Exit code 1 if a check fails."
)
DEFAULT_MDPS = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this one (default: all)")
    parser.add_argument("--mdps", help=f"random MDPs for each (default {DEFAULT_MDPS})")
    parser.add_argument("--seed", default="0", help="seed of the MDPs and errors (default 0)")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="also write the figures there")


def run(options: argparse.Namespace) -> int:
    from munchausen._src.tabular.theorems import THEOREMS, find_theorem

    chosen = list(THEOREMS.values()) if options.name is None else [find_theorem(options.name)]
    mdps = whole("mdps", options.mdps, 1) or DEFAULT_MDPS
    seed = whole("seed", options.seed, 0) or 0
    if options.figures is not None:
        with refused(f"make the folder {options.figures}", "; give --figures another"):
            options.figures.mkdir(parents=True, exist_ok=True)
    results = _check(chosen, mdps, seed)
    passed = all(result.passed for result in results)
    figures = [] if options.figures is None else save_figures(options.figures, seed)
    if options.json:
        rows = [dataclasses.asdict(result) for result in results]
        report = {"passed": passed, "mdps": mdps, "seed": seed, "checks": rows}
        if figures:
            report["figures"] = [str(path) for path in figures]
        print(json.dumps(_finite(report)))
    else:
        _print(results)
        for path in figures:
            print(f"wrote {path}")
    if not passed:
        failed = ", ".join(result.name for result in results if not result.passed)
        print(f"munchausen: failed: {failed}", file=sys.stderr)
    return 0 if passed else 1


def _check(chosen: list[Any], mdps: int, seed: int) -> list[Any]:
    import jax

    from munchausen._src.tabular.families import garnets
    from munchausen._src.tabular.theorems import run as run_theorem

    batch = garnets(jax.random.key(seed), mdps)
    results = []
    total = mdps * len(chosen)
    with show_counter("theory") as advance:
        for i, theorem in enumerate(chosen):

            def watch(done: int, before: int = i * mdps, name: str = theorem.name) -> None:
                advance(before + done, total, name)

            watch(0)
            results.append(run_theorem(theorem, batch, seed=seed, watch=watch))
    return results


def _print(results: list[Any]) -> None:
    rows = [
        {
            "name": r.name,
            "source": r.source,
            "residual": f"{r.residual:.1e}",
            "tolerance": f"{r.tolerance:.0e}",
            "MDPs": f"{r.mdps:,}",
            "verdict": "holds" if r.passed else "FAILS",
            "as printed": _printed_verdict(r),
        }
        for r in results
    ]
    table(rows, tuple(rows[0]))
    for r in results:
        print(f"\n{r.name}: {r.statement}")
        for p in r.printed:
            verdict = "holds too" if p.holds else f"fails, by {p.residual:.2g}"
            print(f"  printed: {p.formula}: {verdict}")
        for name, value in r.details.items():
            if isinstance(value, float):
                print(f"  {name.replace('_', ' ')}: {value:.3g}")
        for row in r.details.get("factors", ()):
            print(
                f"  α = {row['alpha']:g}: measured {row['measured']:.6f}, "
                f"1/(1−α) = {row['right']:.6f}, printed (1+α)/(1−α) = {row['printed']:.6f}"
            )


def _printed_verdict(result: Any) -> str:
    if not result.printed:
        return "the same"
    return "holds" if all(p.holds for p in result.printed) else "fails"


def save_figures(folder: Path, seed: int) -> list[Path]:
    """Computes what the figures show and writes them."""
    from munchausen._src.evidence.figures import theory as draw
    from munchausen._src.tabular import studies

    jobs = {
        "averaging": (draw.averaging, (studies.over_iterations, studies.over_discounts)),
        "action_gap": (draw.action_gap, (studies.action_gap,)),
        "bounds": (draw.bounds, (studies.bounds,)),
        "clipping": (draw.clipping, (studies.clipping,)),
        "policy_change": (draw.policy_change, (studies.policy_change,)),
    }
    paths = []
    with show_counter("figures") as advance:
        for i, (name, (picture, sources)) in enumerate(jobs.items()):
            advance(i, len(jobs), name)
            path = folder / f"{name}.png"
            picture(*(study(seed) for study in sources), path)
            paths.append(path)
        advance(len(jobs), len(jobs), "done")
    return paths


def _finite(value: Any) -> Any:
    """JSON has no NaN or infinity: they become text."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value
