"""A real Chromium, where there is one."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALL = "no Chromium: apt-get install chromium, or uv run playwright install chromium"
# A browser that asks nobody anything by itself; the sandbox is not to be had as root.
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = next((p for name in NAMES if (p := shutil.which(name))), None)
        own = playwright.chromium.executable_path
        if path is None and not Path(own).exists():
            if os.environ.get("MUNCHAUSEN_BROWSER") == "required":
                pytest.fail(INSTALL)
            pytest.skip(INSTALL)
        browser = playwright.chromium.launch(executable_path=path or own, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
