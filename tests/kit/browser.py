"""A real browser for the page: contexts of a size and a scheme, and pictures where somebody asks for them."""

import os
import shutil
from pathlib import Path

from kit.admin_process import AdminPlace
from playwright.sync_api import Browser, BrowserContext, Locator, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
SIZES = {"phone": {"width": 360, "height": 740}, "desk": {"width": 1440, "height": 900}}
SCREENSHOTS = os.environ.get("TIDEGATE_SCREENSHOTS")
"""A folder to keep pictures in: those of the documents are made so."""


def opened(browser: Browser, place: AdminPlace, token: str, size: str, scheme: str) -> BrowserContext:
    return browser.new_context(
        viewport=SIZES[size],  # type: ignore[arg-type]
        color_scheme=scheme,  # type: ignore[arg-type]
        http_credentials={"username": "me", "password": token},
        base_url=place.url,
        reduced_motion="reduce",
    )


def picture(what: Page | Locator, name: str, *, whole: bool = False) -> None:
    if SCREENSHOTS:
        path = Path(SCREENSHOTS) / f"{name}.png"
        if isinstance(what, Page):
            what.screenshot(path=path, full_page=whole)
        else:
            what.screenshot(path=path)
