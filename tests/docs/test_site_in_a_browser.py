"""The built site on narrow screens and in the dark theme."""

import shutil

import pytest

from pages import ROOT

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

SITE = ROOT / "build" / "docs"
# Pages with the widest tables, the longest lines, cards, and images.
PAGES = [
    "index.html",
    "benchmarks/E21.html",
    "command.html",
    "limitations.html",
    "howto/plots.html",
    "howto/large_data.html",
    "methods/panel.html",
    "gallery/plot_gene_expression.html",
]


@pytest.fixture(scope="module")
def browser():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built; run make docs")
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


def open_page(browser, page, width, scheme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get((SITE / page).as_uri())


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_the_width_of_the_screen(browser, page):
    for width in (390, 1280):
        open_page(browser, page, width)
        scroll_width = browser.execute_script("return document.documentElement.scrollWidth")
        assert scroll_width <= width


def test_first_columns_of_tables_are_readable_on_a_phone(browser):
    open_page(browser, "benchmarks/E21.html", 390)
    narrowest = browser.execute_script(
        "return Math.min(...[...document.querySelectorAll('article td:first-child')]"
        ".map(cell => cell.clientWidth))"
    )
    assert narrowest >= 140  # about four words


def test_images_are_inverted_in_the_dark_theme(browser):
    read_filter = "return getComputedStyle(document.querySelector('article img')).filter"
    for page in ("index.html", "benchmarks/E21.html"):
        open_page(browser, page, 390, "dark")
        assert browser.execute_script(read_filter).startswith("invert")
        open_page(browser, page, 390, "light")
        assert browser.execute_script(read_filter) == "none"
