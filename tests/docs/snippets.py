"""The pieces of code in a page, to be run as they stand there."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def snippet(page: str, marker: str) -> str:
    """The first Python block after the comment `<!-- marker -->`."""
    text = (ROOT / page).read_text()
    after = text.split(f"<!-- {marker} -->", 1)[1]
    return after.split("```python\n", 1)[1].split("```", 1)[0]


def lines_of_code(text: str) -> int:
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.split("\n"))
