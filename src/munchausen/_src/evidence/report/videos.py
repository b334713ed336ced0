"""Videos found beside runs: small ones inside the page, large ones as links."""

import base64
import os
from pathlib import Path
from urllib.parse import quote

from munchausen._src.evidence.metrics.runs import Table

EACH_BYTES = 2_000_000
PAGE_BYTES = 11_000_000  # a page with its videos stays below this: it is to be mailed
_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}


def collect_videos(table: Table, page: Path, taken: int) -> list[tuple[str, str]]:
    """Names and addresses. Videos go in, as data URIs, as long as the page, `taken` bytes long
    without them, does not grow too large; others are links, from the page's place."""
    room = (PAGE_BYTES - taken) * 3 // 4  # base64 writes 4 bytes for 3
    paths = {v: r for r in table.runs if r.folder for v in r.folder.videos}
    videos, spent = [], 0
    for path, run in sorted(paths.items()):
        size = path.stat().st_size
        if size <= EACH_BYTES and spent + size <= room:
            spent += size
            data = base64.b64encode(path.read_bytes()).decode()
            address = f"data:{_TYPES[path.suffix.lower()]};base64,{data}"
        else:
            relative = os.path.relpath(path.resolve(), page.resolve().parent)
            address = quote(Path(relative).as_posix())
        videos.append((f"{run.agent} on {run.game}: {path.name}", address))
    return videos
