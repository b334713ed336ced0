"""A video of an agent at play: the game, the value and probability of each action, and the
action gap over the last steps. Drawn without a screen."""

import colorsys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from munchausen._src.errors import UserError, install_line

HEIGHT, GAME_WIDTH, PANEL_WIDTH = 480, 384, 416
WIDTH = GAME_WIDTH + PANEL_WIDTH
_INK, _PALE, _PAPER = (25, 28, 33), (150, 156, 165), (250, 250, 248)
_CHOSEN, _OTHER, _GAP = (213, 94, 0), (86, 180, 233), (0, 114, 178)  # Okabe and Ito
_font = ImageFont.load_default
_HISTORY = 200  # steps of action gap on show


def draw(
    moments: Iterable[Any], title: str, actions: list[str], keep: list[np.ndarray] | None = None
) -> Iterator[np.ndarray]:
    """The pictures [HEIGHT, WIDTH, 3] of an episode, from what `experiment.playing` yields."""
    gaps: deque[float] = deque(maxlen=_HISTORY)
    largest = 1e-6
    low, high = np.inf, -np.inf
    for t, moment in enumerate(moments):
        gap = action_gap(moment.q)
        gaps.append(gap)
        largest = max(largest, gap)
        low, high = min(low, float(moment.q.min())), max(high, float(moment.q.max()))
        picture = Image.new("RGB", (WIDTH, HEIGHT), _PAPER)
        picture.paste(_game(moment.screen), (0, 0))
        pen = ImageDraw.Draw(picture)
        _header(pen, title, t, moment)
        _bars(pen, moment, actions, low, high)
        _history(pen, gaps, largest, gap)
        image = np.asarray(picture)
        if keep is not None:
            keep.append(image)
        yield image


def action_gap(q: np.ndarray) -> float:
    """Best value minus second best."""
    if len(q) < 2:
        return 0.0
    second, best = np.sort(q)[-2:]
    return float(best - second)


def write_mp4(pictures: Iterable[np.ndarray], path: Path, frames_per_second: int) -> int:
    """H.264, playable in any browser. Returns how many pictures were written."""
    try:
        import av
    except ImportError as error:
        raise UserError(f"videos need an extra: {install_line('video')}") from error
    count = 0
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=frames_per_second)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.options = {"crf": "23", "preset": "fast"}
        for picture in pictures:
            count += 1
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return count


def write_gif(pictures: list[np.ndarray], path: Path, frames_per_second: int) -> None:
    """Half size; browsers slow down below 20 ms a picture."""
    step = max(1, round(frames_per_second / 15))
    images = [
        Image.fromarray(x).resize((WIDTH // 2, HEIGHT // 2)).quantize(64) for x in pictures[::step]
    ]
    images[0].save(
        path,
        save_all=True,
        append_images=images[1:],
        duration=round(1000 * step / frames_per_second),
        loop=0,
    )


def _game(screen: np.ndarray) -> Image.Image:
    """The game as large as fits its half: a picture, or a frame as the agent sees it."""
    if screen.ndim < 3:
        screen = _grey(np.atleast_2d(screen))
    elif screen.dtype != np.uint8 or screen.shape[-1] != 3:
        screen = _colour(screen)
    image = Image.fromarray(screen)
    scale = min(GAME_WIDTH / image.width, HEIGHT / image.height)
    if image.size == (160, 210):  # an Atari pixel is wider than high
        size = (GAME_WIDTH, HEIGHT)
    else:
        size = (int(image.width * scale), int(image.height * scale))
    resized = image.resize(size, Image.Resampling.NEAREST)
    background = Image.new("RGB", (GAME_WIDTH, HEIGHT), (0, 0, 0))
    background.paste(resized, ((GAME_WIDTH - size[0]) // 2, (HEIGHT - size[1]) // 2))
    return background


def _grey(frame: np.ndarray) -> np.ndarray:
    """From the lowest number (black) to the highest."""
    numbers = frame.astype(np.float64)
    span = max(float(np.ptp(numbers)), 1e-6)
    return (255 * (numbers - numbers.min()) / span).astype(np.uint8)


def _colour(frame: np.ndarray) -> np.ndarray:
    """A colour for each channel, as MinAtar's are."""
    channels = frame.shape[-1]
    palette = np.array(
        [colorsys.hsv_to_rgb(i / channels, 0.65, 1.0) for i in range(channels)], np.float64
    )
    shown = np.zeros((*frame.shape[:2], 3))
    for i in range(channels):
        shown[frame[..., i].astype(bool)] = palette[i]
    return (255 * shown).astype(np.uint8)


def _header(pen: ImageDraw.ImageDraw, title: str, t: int, moment: Any) -> None:
    x = GAME_WIDTH + 16
    pen.text((x, 10), title, fill=_INK, font=_font(16))
    pen.text((x, 34), f"step {t:,}    score {moment.score:g}", fill=_INK, font=_font(14))


def _bars(
    pen: ImageDraw.ImageDraw, moment: Any, actions: list[str], low: float, high: float
) -> None:
    """For each action its value (bar) and its probability (number)."""
    top, bottom, left = 66, 320, GAME_WIDTH + 16
    right = WIDTH - 60
    pen.text((left, top), "Q of each action", fill=_PALE, font=_font(12))
    pen.text((right - 2, top), "policy", fill=_PALE, font=_font(12))
    top += 18
    row = min(24.0, (bottom - top) / len(moment.q))
    size = int(max(8, min(13, row - 4)))
    start = left + 104
    span = max(high - low, 1e-6)
    for i, (q, p) in enumerate(zip(moment.q, moment.policy, strict=True)):
        y = top + i * row
        colour = _CHOSEN if i == moment.action else _OTHER
        length = 4 + (right - 54 - start) * (float(q) - low) / span
        pen.text((left, y), actions[i][:14], fill=_INK, font=_font(size))
        pen.rectangle((start, y + 1, start + length, y + row - 4), fill=colour)
        pen.text((start + length + 4, y), f"{q:.2f}", fill=_INK, font=_font(size))
        pen.text((right + 6, y), f"{p:.2f}", fill=_INK, font=_font(size))


def _history(pen: ImageDraw.ImageDraw, gaps: Iterable[float], largest: float, gap: float) -> None:
    left, right, top, bottom = GAME_WIDTH + 16, WIDTH - 16, 358, HEIGHT - 16
    text = f"action gap {gap:.3f}    largest so far {largest:.3f}"
    pen.text((left, top - 22), text, fill=_GAP, font=_font(12))
    pen.rectangle((left, top, right, bottom), outline=_PALE)
    values = list(gaps)
    points = [
        (left + (right - left) * i / (_HISTORY - 1), bottom - 2 - (bottom - top - 4) * v / largest)
        for i, v in enumerate(values)
    ]
    if len(points) > 1:
        pen.line(points, fill=_GAP, width=2)
