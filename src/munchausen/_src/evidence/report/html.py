"""The page: one file with its style, script and data inside, that asks nothing of a network.

Charts are drawn by a few hundred lines of the page's own script. Plotly, which could draw them
too, is 4.5 MB in every page and needs work of its own for two themes and small screens.
"""

import base64
import datetime
import hashlib
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from munchausen._src.evidence.metrics.runs import short_names
from munchausen._src.evidence.report import tables
from munchausen._src.evidence.report.payload import as_script, make_payload
from munchausen._src.evidence.report.results import Configuration, Results
from munchausen._src.evidence.report.tables import Cell, Grid
from munchausen._src.evidence.report.videos import collect_videos

_SCRIPTS = ("charts.js", "page.js")
_SHOWN_RUNS = 2_000  # of the health table


def make_page(results: Results, path: Path, title: str) -> str:
    """The page that is to be written at `path` (links to large videos start there)."""
    style = _read("style.css")
    script = "\n".join(_read(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; media-src data:"
    )
    data = as_script(make_payload(results))
    return Template(_read("page.html")).substitute(
        policy=escape(policy),
        title=escape(title),
        style=style,
        script=script,
        data=data,
        facts=escape(_facts(results)),
        notes=_notes(results.notes),
        summaries=_summaries(results),
        final=_table(tables.final_scores(results), "scores"),
        maximum=_table(tables.maximum_scores(results), "scores"),
        gaps=_table(tables.action_gaps(results), "scores"),
        videos=_videos(collect_videos(results.table, path, len(data))),
        health=_health(results),
        settings=_settings(results),
        last=str(results.last),
    )


def _facts(results: Results) -> str:
    aligned = results.aligned
    runs = tables.count(sum(map(len, aligned.groups.values())), "run")
    agents = tables.count(len(aligned.agents), "agent")
    games = tables.count(len(aligned.games), "game")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{runs} of {agents} on {games}, {date}"


def _notes(notes: list[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    opened = " open" if len(notes) <= 5 else ""
    said = tables.count(len(notes), "note")
    return (
        f'<details class="notes"{opened}><summary>{said} on these runs</summary>'
        f"<ul>{items}</ul></details>"
    )


def _summaries(results: Results) -> str:
    """One table for each baseline; the script shows the one that is chosen."""
    return "".join(
        f'<div class="summary" data-comparison="{i}">{_table(tables.summary(c), "summary")}</div>'
        for i, c in enumerate(results.comparisons)
    )


def _table(grid: Grid, kind: str) -> str:
    head = "".join(
        f'<th scope="col" aria-sort="none"><button>{escape(c)}</button></th>' for c in grid.columns
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in grid.rows)
    return (
        f'<div class="scroll"><table class="{kind}"><caption>{escape(grid.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value:.10g}"'
    text = escape(cell.text)
    # An interval is said in a quieter voice.
    if " [" in text and cell.value is not None:
        number, interval = text.split(" [", 1)
        text = f"{number} <small>[{interval}</small>"
    text = f"<b>{text}</b>" if cell.best else text
    return f"<td{value}>{text}</td>"


def _videos(videos: list[tuple[str, str]]) -> str:
    if not videos:
        return ""
    items = []
    for name, address in (map(escape, video) for video in videos):
        if not address.startswith("data:"):
            media = f'<a href="{address}">open the file (too large for the page)</a>'
        elif address.startswith("data:image"):
            media = f'<img src="{address}" alt="{name}">'
        else:
            media = f'<video controls loop muted playsinline src="{address}"></video>'
        items.append(f"<figure>{media}<figcaption>{name}</figcaption></figure>")
    return (
        f'<section id="videos"><h2>Videos</h2><div class="videos">{"".join(items)}</div></section>'
    )


def _health(results: Results) -> str:
    troubled = sum(1 for h in results.health if h.problem)
    names = short_names({h.game for h in results.health})
    rows = [
        [
            Cell(h.agent),
            Cell(names[h.game]),
            Cell(h.seed),
            Cell(h.status),
            Cell(f"{h.steps:,}", h.steps),
            tables.known(h.score),
            tables.known(h.steps_per_second, spell="{:,.0f}".format),
            Cell(str(h.gaps), h.gaps),
            Cell(h.problem),
            Cell(h.source),
        ]
        for h in results.health[:_SHOWN_RUNS]
    ]
    columns = ["agent", "game", "seed", "status", "steps", "last score", "steps/s",
               "iterations without a score", "problem", "from"]  # fmt: skip
    count = len(results.health)
    said = f"{troubled} of {count} runs need a look" if troubled else f"all {count} runs are well"
    if count > _SHOWN_RUNS:
        said += f"; the first {_SHOWN_RUNS} are shown"
    grid = Grid(said, columns, rows)
    opened = " open" if troubled and count <= 60 else ""
    return f"<details{opened}><summary>{escape(said)}</summary>{_table(grid, 'health')}</details>"


def _configuration(configuration: Configuration) -> str:
    games = ", ".join(configuration.games)
    values = "".join(
        f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>"
        for k, v in configuration.values.items()
    )
    commands = escape("\n".join(configuration.commands))
    return (
        f"<details><summary>{escape(configuration.agent)} "
        f"<small>{configuration.runs} runs: {escape(games)}</small></summary>"
        f"<pre>{commands}</pre><dl>{values}</dl></details>"
    )


def _settings(results: Results) -> str:
    if not results.configurations:
        return ""
    inside = "".join(map(_configuration, results.configurations))
    if results.machines:
        items = "".join(f"<li>{escape(machine)}</li>" for machine in results.machines)
        inside += f"<p>Made on:</p><ul>{items}</ul>"
    title = "Settings, and how to make each run again"
    return f'<section id="settings"><h2>{title}</h2>{inside}</section>'


def _read(name: str) -> str:
    page = files("munchausen._src.evidence.report") / "page"
    return (page / name).read_text(encoding="utf-8")
