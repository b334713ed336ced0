"""The page in a real Chromium, opened from disk."""

import numpy as np
import pytest
from browser import chromium

from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.evidence.report.html import make_page
from munchausen._src.evidence.report.results import gather
from written_runs import write_run, write_study

HOSTILE = "</script><img src=x onerror=alert(1)>"
LAPTOP, PHONE = (1280, 800), (390, 844)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    write_study(root / "runs", games=["minatar/breakout", "minatar/asterix"])
    rising = np.linspace(0.5, 12, 10)
    for game in ("breakout", "asterix"):
        write_run(
            root / "runs" / f"hostile-{game}",
            [rising, 2 * rising],
            agent=HOSTILE,
            env=f"minatar/{game}",
        )
    write_run(root / "runs" / "x", [[1, 2]], agent="al", status="diverged", error=f"bad {HOSTILE}")
    (root / "runs" / "x" / "play.gif").write_bytes(b"GIF89a" + bytes(40))
    results = gather(read_table([root / "runs"]), resamples=100)
    path = root / "report.html"
    path.write_text(make_page(results, path, f"Study {HOSTILE}"), encoding="utf-8")
    return path.as_uri()


class Visit:
    """A page with everything it asked for or complained of."""

    def __init__(self, browser, address, size=LAPTOP, theme="light"):
        width, height = size
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            has_touch=size == PHONE,
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.requests, self.complaints = [], []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on("console", lambda m: self.complaints.append(m.text))
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.on("dialog", lambda d: (self.complaints.append(d.message), d.dismiss()))
        self.page.goto(address)

    def lines(self, chart):
        return self.page.locator(f"#{chart} path.line").count()

    def close(self):
        self.context.close()


@pytest.fixture
def visit(browser, address):
    visits = []

    def open_page(**options):
        visits.append(Visit(browser, address, **options))
        return visits[-1]

    yield open_page
    for one in visits:
        one.close()
        # The page itself, and what is inside it; nothing else.
        assert [url for url in one.requests if not url.startswith("data:")] == [address]
        assert one.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_it_fits_and_draws(visit, size, theme):
    page = visit(size=size, theme=theme)
    assert page.page.evaluate("document.documentElement.scrollWidth") == size[0]
    for chart in ("aggregate", "curve", "profile"):
        assert page.lines(chart) == 4, chart
    # Half of the games is few, but enough: al has no run to compare, and no curve.
    assert page.lines("gap") == 4
    assert page.page.locator("#estimates svg").count() == 4
    colour = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[theme]


def test_the_theme_can_be_switched(visit):
    page = visit(theme="dark").page
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_agents_games_columns_and_scales_can_be_chosen(visit):
    one = visit()
    page = one.page
    before = page.locator("#curve path.line").first.get_attribute("d")
    page.select_option("#game", label="breakout")
    assert page.locator("#curve path.line").first.get_attribute("d") != before
    assert page.text_content("#gap-game") == "breakout"
    linear = page.locator("#curve path.line").first.get_attribute("d")
    page.select_option("#scale", "log")
    assert page.locator("#curve path.line").first.get_attribute("d") != linear
    page.select_option("#column", "action_gap")
    assert one.lines("curve") == 4
    page.select_option("#column", "score")
    page.click(".chip >> text=adam-dqn")
    assert [one.lines(chart) for chart in ("aggregate", "curve", "profile")] == [3, 3, 3]
    page.click(".chip >> text=adam-dqn")
    assert one.lines("curve") == 4
    assert page.locator("#curve path.run").count() == 0
    page.check("#runs")
    assert page.locator("#curve path.run").count() == 3 * 3 + 2
    page.select_option("#statistic", "median")
    assert one.lines("aggregate") == 4


def test_hover_tells_values(visit):
    page = visit().page
    box = page.locator("#curve svg").bounding_box()
    page.locator("#curve").scroll_into_view_if_needed()
    page.locator("#curve").hover(position={"x": box["width"] * 0.9, "y": 80})
    tip = page.locator("#curve .tip")
    assert tip.is_visible()
    rows = tip.locator("div").all_inner_texts()
    assert len(rows) == 5
    assert "steps" in rows[0]
    assert "m-dqn" in rows[1]  # the best at that step comes first
    assert "[" in rows[1]


def test_a_finger_tells_values_too(visit):
    page = visit(size=PHONE).page
    page.locator("#curve svg").tap(position={"x": 200, "y": 80})
    assert page.locator("#curve .tip").is_visible()
    page.locator("h2 >> text=Learning curves").tap()
    assert not page.locator("#curve .tip").is_visible()


def test_improvement_bars_follow_their_choices(visit):
    page = visit().page
    page.select_option("#subject", "m-dqn")
    page.select_option("#against", "dqn")
    assert page.text_content("#improved") == "better on 2 of 2 games"
    page.select_option("#against", "m-dqn")
    assert page.text_content("#improved") == "better on 0 of 2 games"


def test_tables_sort(visit):
    page = visit().page
    agents = page.locator("table.summary td:first-child")
    page.click("table.summary th:has-text('IQM') button")
    assert agents.first.text_content() == "m-dqn"
    page.click("table.summary th:has-text('IQM') button")
    assert agents.first.text_content() == "dqn"


def test_games_of_the_grid_can_be_found_and_opened(visit):
    page = visit().page
    page.fill("#find", "break")
    assert page.locator("#grid .small:visible").count() == 1
    page.click("#grid .small:visible")
    assert page.locator("#game option:checked").text_content() == "breakout"


def test_a_hostile_name_is_text(visit):
    page = visit().page
    assert page.text_content("h1") == f"Study {HOSTILE}"
    assert page.locator(".chip", has_text=HOSTILE).count() == 1
    assert page.locator("table.summary td", has_text=HOSTILE).count() == 1
    assert page.locator("img").count() == 1  # the animation of a run
    page.click(".chip:last-child")  # and drawn again
    page.select_option("#subject", HOSTILE)
    assert page.locator("img").count() == 1


def test_tables_need_no_script(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("table.summary td", has_text="m-dqn").first.is_visible()
    context.close()
