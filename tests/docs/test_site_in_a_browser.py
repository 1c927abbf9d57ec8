"""The built site on a phone and in the dark: no page is too wide, and pictures are dark."""

import shutil

import pytest

from pages import ROOT

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

SITE = ROOT / "build" / "docs"
# Those with the widest tables, the longest lines, cards, and pictures of all kinds.
PAGES = [
    "index.html",
    "results.html",
    "what_can_go_wrong.html",
    "howto/plots.html",
    "howto/choosing_penalties.html",
    "methods/panel.html",
    "gallery/plot_gene_expression.html",
]


@pytest.fixture(scope="module")
def browser():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: make docs")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking",
                 "disable-dev-shm-usage"):  # fmt: skip
        options.add_argument(f"--{flag}")
    session = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield session
    session.quit()


def opened(browser, page, width, scheme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    wish = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wish)
    browser.get((SITE / page).as_uri())


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_wider_than_the_screen(browser, page):
    for width in (390, 1280):
        opened(browser, page, width)
        found = browser.execute_script("return document.documentElement.scrollWidth")
        assert found <= width


def test_names_of_rows_can_be_read_on_a_phone(browser):
    opened(browser, "results.html", 390)
    narrowest = browser.execute_script(
        "return Math.min(...[...document.querySelectorAll('article td:first-child')]"
        ".map(cell => cell.clientWidth))"
    )
    assert narrowest >= 140  # about four words


def test_pictures_are_dark_where_the_page_is(browser):
    read = "return getComputedStyle(document.querySelector('article img')).filter"
    for page in ("index.html", "results.html"):
        opened(browser, page, 390, "dark")
        assert browser.execute_script(read).startswith("invert")
        opened(browser, page, 390, "light")
        assert browser.execute_script(read) == "none"
