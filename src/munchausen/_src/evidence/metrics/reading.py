"""From folders and files to one table, with everything a reader must be told."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError
from munchausen._src.evidence.metrics.published import read_csv, read_dopamine
from munchausen._src.evidence.metrics.run_folders import find_run_folders, read_run_folder
from munchausen._src.evidence.metrics.runs import Run, Table

_READERS = {".json": read_dopamine, ".csv": read_csv, ".gz": read_csv}


def read_table(
    paths: Iterable[Path],
    watch: Callable[[int, int], None] = lambda *_: None,
    *,
    defaults: Mapping[str, Any] | None = None,
) -> Table:
    """All runs under folders, and all curves of files (Dopamine's .json, .csv, .csv.gz).
    `defaults`: of an agent's fields, for runs that are older than a field and do not name it."""
    sources: dict[Path, Path] = {}  # what is named twice is read once
    notes: list[str] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} is not there; give a folder of runs, a .json or a .csv file")
        if path.is_file():
            sources[path.resolve()] = path
            continue
        runs = find_run_folders(path, notes)
        curves = [] if runs else [p for p in sorted(path.iterdir()) if p.suffix in _READERS]
        if not runs and not curves:
            raise UserError(
                f"no runs in {path}; give a folder that `munchausen train` made or one above it, "
                "or published curves (.json, .csv)"
            )
        sources |= {source.resolve(): source for source in (*runs, *curves)}
    found: list[Run] = []
    for done, source in enumerate(sorted(sources.values(), key=Path.is_file)):  # folders first
        watch(done, len(sources))
        if source.is_file():
            found += _read_file(source)
        else:
            runs, said = read_run_folder(source, defaults or {})
            found += runs
            notes += said
    watch(len(sources), len(sources))
    if not found:
        raise UserError("there are no records to report on: " + "; ".join(notes[:3]))
    runs, said = tell_apart(found)
    return Table(tuple(runs), (*notes, *said))


def _read_file(path: Path) -> list[Run]:
    if path.suffix not in _READERS:
        raise UserError(f"{path} is neither a run's folder nor a .json, .csv or .csv.gz file")
    runs = _READERS[path.suffix](path)
    if not runs:
        raise UserError(f"{path} has no rows")
    return runs


def tell_apart(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """Runs of one name but other settings get names of their own, and a run that is there twice
    counts once: neither is mixed silently."""
    runs, notes = _name_by_changes(runs)
    runs, more = _name_by_configuration(runs)
    kept: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        key = (run.game, run.agent, run.seed)
        if key not in kept:
            kept[key] = run
            continue
        other = kept[key]
        kept[key] = max(other, run, key=lambda r: r.length)
        notes.append(
            f"{run.agent} on {run.game} with seed {run.seed} is in {other.source} and in "
            f"{run.source}: the same seed is no further evidence, {kept[key].source} counts"
        )
    return list(kept.values()), notes + more


def _name_by_changes(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """A preset that the user changed is named with its changes, unless all runs have them."""
    own = [run for run in runs if run.config]
    shared = set.intersection(*(set(_changes(r)) for r in own)) if own else set()
    notes = []
    if shared:
        notes.append("all runs were made with " + ", ".join(_spell(shared)))
    named = []
    for run in runs:
        changes = [c for c in _changes(run) if c not in shared]
        named.append(replace(run, agent=_with(run.agent, changes)) if changes else run)
    return named, notes


def _changes(run: Run) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in (run.config.get("changes") or {}).items()]


def _name_by_configuration(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """Presets may have changed between versions: what differs within a game is named."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.game, run.agent].append(run)
    named: dict[int, str] = {}
    notes = []
    for (game, agent), group in groups.items():
        configurations = [{str(k): str(v) for k, v in run.settings.items()} for run in group]
        keys = sorted({key for c in configurations for key in c})
        values = {key: Counter(c.get(key, "–") for c in configurations) for key in keys}
        differing = [key for key in keys if len(values[key]) > 1]
        if not differing:
            continue
        usual = {key: values[key].most_common(1)[0][0] for key in differing}
        for run, configuration in zip(group, configurations, strict=True):
            mine = [(k, configuration.get(k, "–")) for k in differing]
            mine = [(k, v) for k, v in mine if v != usual[k]]
            if mine:
                named[id(run)] = _with(agent, mine)
        notes.append(
            f"runs of {agent} on {game} differ in {', '.join(differing)}: they are kept apart"
        )
    return [replace(r, agent=named[id(r)]) if id(r) in named else r for r in runs], notes


def _with(agent: str, values: Iterable[tuple[str, str]]) -> str:
    return f"{agent} ({', '.join(_spell(values))})"


def _spell(values: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{key} {value}" for key, value in sorted(values)]
