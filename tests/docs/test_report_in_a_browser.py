"""The report in a browser: plots, table, keyboard, narrow screens, print, and hostile names."""

import base64
import itertools
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.report import write_report
from prosparse.report.page import MAX_PRINTED
from prosparse.stability import PermutationNull, Stability

pytest.importorskip("jinja2", reason="jinja2 is not installed")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked=2">',
    "</script><script>window.hacked=3</script>",
    "{{ 7 * 7 }}",
    "😀 é 'quoted' \"twice\" & <b>bold</b>",
    "<!--<script>",
    "__proto__",
    "\u2028line",
]
X = make_globally_sparse(80, 120, n_components=2, n_informative=20, random_state=0).X
NAMES = [*HOSTILE, *(f"gene {k}" for k in range(len(HOSTILE), 120))]
IDS = [HOSTILE[k % len(HOSTILE)] + str(k) for k in range(80)]
GROUPS = [HOSTILE[k % 3] for k in range(80)]


@pytest.fixture(scope="module")
def browser():
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking",
                 "disable-dev-shm-usage", "window-size=1100,900"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield session
    session.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    model = GSPPCA(2).fit(pd.DataFrame(X, columns=NAMES))
    about = {
        "title": HOSTILE[0],
        "label": HOSTILE[1],
        "notes": HOSTILE,
        "warnings": HOSTILE[:1],
        "data": {HOSTILE[2]: HOSTILE[1]},
        "command": HOSTILE[2],
    }
    path = tmp_path_factory.mktemp("page") / "report.html"
    frame = pd.DataFrame(X, columns=NAMES)
    return write_report(model, path, X=frame, ids=IDS, label=GROUPS, about=about), model


@pytest.fixture
def opened(browser, page):
    browser.get(page[0].as_uri())
    return browser


def texts(browser, selector):
    found = browser.find_elements(By.CSS_SELECTOR, selector)
    return [e.get_property("textContent") for e in found]


def console_messages(browser):
    return [entry["message"] for entry in browser.get_log("browser")]


def test_plots_are_drawn_without_console_messages(opened, page):
    assert console_messages(opened) == []
    for chart in ("size", "relevance", "scores", "convergence"):
        svg = opened.find_element(By.CSS_SELECTOR, f"#{chart}-chart svg")
        assert svg.get_attribute("role") == "img"
        assert len(svg.get_attribute("aria-label")) > 20
        assert svg.size["height"] > 100
    assert len(texts(opened, "#scores-chart circle")) == 80
    assert f"{page[1].n_selected_} variables" in texts(opened, "#size-chart .marklabel")
    wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


def test_hostile_names_are_shown_and_not_executed(opened):
    assert opened.execute_script("return window.hacked") is None
    assert opened.title == HOSTILE[0]
    assert opened.find_element(By.TAG_NAME, "h1").text == HOSTILE[0]
    assert opened.find_elements(By.TAG_NAME, "img") == []
    assert len(opened.find_elements(By.TAG_NAME, "script")) == 2
    assert set(texts(opened, "#data li")) == set(HOSTILE)
    search = opened.find_element(By.ID, "search")
    for name in HOSTILE[:4]:
        search.clear()
        search.send_keys(name)
        assert texts(opened, "#table tbody td:nth-child(2)") == [name]
    assert [t.strip() for t in texts(opened, "#scores-legend .name")] == sorted(HOSTILE[:3])
    # The content security policy also stops scripts that are inserted later.
    opened.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 9';"
        "document.body.append(s)"
    )
    assert opened.execute_script("return window.hacked") is None
    assert any("Content Security Policy" in line for line in console_messages(opened))


def test_table_can_be_sorted_searched_and_paged(opened, page):
    model = page[1]
    ranks = texts(opened, "#table tbody td:first-child")
    assert ranks == [str(k) for k in range(1, 51)]
    best = [str(n) for n in np.array(NAMES)[np.argsort(model.ranking_)]]
    assert texts(opened, "#table tbody td:nth-child(2)") == best[:50]

    def click(key):
        opened.find_element(By.CSS_SELECTOR, f"#table button[data-key={key}]").click()
        head = opened.find_element(By.CSS_SELECTOR, f"#table th:has(button[data-key={key}])")
        assert len(opened.find_elements(By.CSS_SELECTOR, "th[aria-sort=none]")) == 3
        return head.get_attribute("aria-sort")

    assert click("rank") == "descending"
    assert texts(opened, "#table tbody td:first-child")[0] == "120"
    assert click("relevance") == "descending"
    assert click("relevance") == "ascending"
    shown = [float(t) for t in texts(opened, "#table tbody td:nth-child(3)")]
    assert shown == sorted(shown)
    assert click("name") == "ascending"
    opened.find_element(By.ID, "search").send_keys("GENE 1")
    names = texts(opened, "#table tbody td:nth-child(2)")
    assert names == [f"gene {k}" for k in [*range(10, 20), *range(100, 120)]]
    assert texts(opened, "#count") == ["30 of 120 variables, sorted by name, ascending"]
    opened.find_element(By.ID, "search").clear()
    opened.find_element(By.ID, "search").send_keys(" ")
    opened.find_element(By.ID, "next").click()
    opened.find_element(By.ID, "next").click()
    assert texts(opened, "#page-number") == ["page 3 of 3"]
    assert not opened.find_element(By.ID, "next").is_enabled()
    opened.find_element(By.ID, "only-selected").send_keys(Keys.SPACE)
    assert texts(opened, "#count")[0].startswith(f"{model.n_selected_} of 120 variables")
    assert set(texts(opened, "#table tbody td:nth-child(4)")) == {"yes"}
    assert console_messages(opened) == []


def test_scores_respond_to_pointer_and_keyboard(opened):
    live = opened.find_element(By.ID, "scores-live")
    svg = opened.find_element(By.CSS_SELECTOR, "#scores-chart svg")
    opened.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", svg)
    dot = opened.find_elements(By.CSS_SELECTOR, "#scores-chart circle")[7]
    webdriver.ActionChains(opened).move_to_element(dot).perform()
    assert "component 1" in live.text
    assert any(name in live.text for name in HOSTILE)
    svg.send_keys(Keys.ARROW_RIGHT)
    first = live.text
    svg.send_keys(Keys.ARROW_RIGHT)
    assert live.text != first
    button = opened.find_element(By.CSS_SELECTOR, "#scores-legend button")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert len(texts(opened, "#scores-chart circle")) == 80 - GROUPS.count(sorted(HOSTILE[:3])[0])
    before = opened.find_element(By.CSS_SELECTOR, "#scores-chart circle").get_attribute("cx")
    opened.find_element(By.CSS_SELECTOR, "#scores-horizontal option[value='1']").click()
    after = opened.find_element(By.CSS_SELECTOR, "#scores-chart circle").get_attribute("cx")
    assert before != after
    assert console_messages(opened) == []


def test_scores_have_ellipses_names_and_explained_variance(opened, page):
    ratio = page[1].explained_variance_ratio_
    labels = texts(opened, "#scores-chart text")
    for k in range(2):
        assert f"component {k + 1} ({100 * ratio[k]:.1f}% of the variance)" in labels
    # An ellipse contains the points of its group within the 95 % quantile of the distances.
    inside = opened.execute_script("""
      const svg = document.querySelector("#scores-chart svg");
      return [...svg.querySelectorAll(".ellipse")].map(path => [
        path.style.stroke,
        [...svg.querySelectorAll("circle")].map(dot => {
          const point = svg.createSVGPoint();
          point.x = dot.getAttribute("cx"); point.y = dot.getAttribute("cy");
          return [dot.style.fill, path.isPointInFill(point)];
        }),
      ]);
    """)
    scores = page[1].transform(pd.DataFrame(X, columns=NAMES))[:, :2]
    groups = np.array(GROUPS)
    sizes = {name: int(np.sum(groups == name)) for name in groups}
    assert len(inside) == sum(size >= 4 for size in sizes.values())
    for colour, dots in inside:
        own = np.array([fill == colour for fill, _ in dots])
        deviations = scores[own] - scores[own].mean(axis=0)
        squares = np.sum(deviations @ np.linalg.inv(np.cov(scores[own].T)) * deviations, axis=1)
        clear = np.abs(squares - 5.991) > 0.1  # pixels are rounded
        found = np.array([is_inside for _, is_inside in dots])[own]
        np.testing.assert_array_equal(found[clear], (squares < 5.991)[clear])
    boxes = opened.execute_script(
        "return [...document.querySelectorAll('#scores-chart .pointname')].map(t => {"
        "const b = t.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]})"
    )
    assert len(boxes) <= 8
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert not any(
            left < r and x < right and top + 2 < b and y + 2 < bottom for x, y, r, b in boxes[:k]
        )


def test_skip_link_and_zoom_by_keyboard(opened):
    opened.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert "Skip to the table" in opened.switch_to.active_element.text
    zoom = opened.find_element(By.ID, "size-zoom")
    points = len(texts(opened, "#size-chart .line"))
    zoom.send_keys(Keys.ENTER)
    assert zoom.get_attribute("aria-pressed") == "true"
    assert len(texts(opened, "#size-chart circle.dot")) <= 31
    assert points == 1


def test_controls_tables_and_headings_are_accessible(opened):
    nameless = opened.execute_script(
        "return [...document.querySelectorAll('button, input, select')].filter(e =>"
        "!(e.textContent.trim() || e.labels && e.labels.length || e.ariaLabel)).length"
    )
    assert nameless == 0
    headers = opened.find_elements(By.CSS_SELECTOR, "th")
    assert all(th.get_attribute("scope") in ("row", "col") for th in headers)
    levels = opened.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])"
    )
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    ids = opened.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    targets = opened.execute_script(
        "return [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))"
    )
    assert targets


def contrast(browser, selector):
    """Return the contrast of the text of an element with the page, as defined by WCAG."""
    script = """
      const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const light = (c) => rgb(c).map(v => v / 255)
        .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
      const e = getComputedStyle(document.querySelector(arguments[0]));
      const ink = e.fill !== "rgb(0, 0, 0)" ? e.fill : e.color;
      const [a, b] = [light(ink), light(getComputedStyle(document.body).backgroundColor)];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    """
    return browser.execute_script(script, selector)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_sufficient_contrast(opened, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    back = opened.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 23, 29)"}[scheme]
    for selector in ("p.lead", "dt", "figcaption", ".chart text", ".chart .marklabel"):
        assert contrast(opened, selector) >= 4.5
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        FDRPCA(),
        SCA(2),
        SPPCA(2, penalty="bic", penalties=[5.0, 20.0], max_iter=50),
        EMPCA(1, n_nonzero=7, random_state=0),
        GSPPCA(1, n_features_to_select=5),
    ],
)
def test_report_of_each_method(browser, tmp_path, model):
    """Reports without a path, with several objectives, or with one component are drawn."""
    model.fit(X[:, :20])
    path = write_report(
        model, tmp_path / "report.html", X=X[:, :20], label=np.linspace(0, 1, 80).tolist()
    )
    browser.get(path.as_uri())
    assert console_messages(browser) == []
    assert len(texts(browser, "#scores-chart circle")) == 80
    assert len(texts(browser, "#table tbody tr")) == 20
    assert len(texts(browser, ".heat tbody tr")) == model.support_.sum()


def test_communality_plot_and_q_values(browser, tmp_path):
    """Bars are in decreasing order with the null expectation, and q-values can be sorted."""
    model = FDRPCA(2, min_communality=0.3).fit(X)
    browser.get(write_report(model, tmp_path / "report.html", X=X).as_uri())
    assert console_messages(browser) == []
    bars = browser.find_elements(By.CSS_SELECTOR, "#relevance-chart rect:not(.tipback)")
    heights = [float(bar.get_attribute("height")) for bar in bars]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] > 0
    assert len(browser.find_elements(By.CSS_SELECTOR, "#relevance-chart .null")) == 1
    browser.find_element(By.CSS_SELECTOR, "[data-key=qvalue]").click()
    shown = [float(q) for q in texts(browser, "#table tbody td:nth-child(4)")]
    np.testing.assert_allclose(shown, np.sort(model.qvalues_)[: len(shown)], rtol=1e-3)
    assert not browser.find_elements(By.ID, "convergence")


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_report_of_an_empty_selection(browser, tmp_path):
    noise = np.random.default_rng(1).normal(size=(60, 20))
    model = FDRPCA().fit(noise)
    assert model.n_selected_ == 0
    browser.get(write_report(model, tmp_path / "report.html", X=noise).as_uri())
    assert console_messages(browser) == []
    assert len(texts(browser, "#table tbody tr")) == 20
    assert "No variable was selected" in browser.find_element(By.ID, "relevance").text


# --- narrow screens, print, keyboard


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a large report: long names, 10 components, 14 labels, stability, redundant groups."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(70, 10)) @ rng.normal(size=(10, 300)) + rng.normal(size=(70, 300))
    names = [f"ENSG{k:011d}" for k in rng.permutation(300)]
    frame = pd.DataFrame(table, columns=names)
    model = GSPPCA(10, n_features_to_select=250).fit(frame)
    selected = model.support_
    stability = Stability("GSPPCA", tuple(names), selected, 4 * selected, np.full(4, 250), 35)
    null = PermutationNull(
        "GSPPCA",
        300,
        250,
        True,
        np.array([250, 250]),
        0.5,
        np.array([0.2, 0.3]),
        "explained_variance",
        ("signs", "permutation"),
    )
    return write_report(
        model,
        tmp_path_factory.mktemp("large") / "report.html",
        X=frame,
        label=[f"a long label, number {k % 14}" for k in range(70)],
        about={"command": "prosparse select " + "long_name_of_a_file_" * 8 + ".csv", "file": {
            "SHA-256": "0123456789abcdef" * 4}},
        permutations=null,
        stability=stability,
    )  # fmt: skip


LINES = """
  return [...document.querySelectorAll(arguments[0])].map(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const tops = [...range.getClientRects()].map(box => Math.round(box.top));
    return [cell.textContent.trim().length, new Set(tops).size];
  });
"""


@pytest.mark.parametrize("which", ["page", "large"])
def test_report_fits_a_narrow_screen(browser, request, which):
    """At a width of 390 pixels the page does not scroll sideways, and names wrap rarely."""
    given = request.getfixturevalue(which)
    path = given[0] if which == "page" else given
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        browser.get(path.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        for selector in ("#table td:nth-child(2)", ".heat tbody th", ".redundancy tbody th", "dd"):
            for length, lines in browser.execute_script(LINES, selector):
                assert lines <= 1 + length / 8, (selector, length, lines)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_report_prints_on_few_pages(browser, large):
    """A printed report has few pages and prints the colours of its legends."""
    browser.get(large.as_uri())
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": False}
    printed = browser.execute_cdp_cmd("Page.printToPDF", paper)["data"]
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) <= 7
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        look = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        for selector in (".key.plus", ".heat td.plus", ".legend .swatch", ".meter span"):
            assert browser.execute_script(look, selector, "print-color-adjust") == "exact"
        shown = "return [...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent)"
        rows = browser.execute_script(f"{shown}.length", ".heat tbody tr")
        cells = browser.execute_script(f"{shown}.length", ".heat thead th")
        assert (rows, cells - 1) == MAX_PRINTED
        note = browser.find_element(By.CSS_SELECTOR, ".on-paper").text
        assert note == "Only the first 40 variables and the first 8 components are printed."
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_labels_have_distinct_colours(browser, large):
    browser.get(large.as_uri())
    assert console_messages(browser) == []
    colour = "return getComputedStyle(arguments[0])[arguments[1]]"
    swatches = browser.find_elements(By.CSS_SELECTOR, "#scores-legend .swatch")
    colours = [browser.execute_script(colour, one, "backgroundColor") for one in swatches]
    assert len(set(colours)) == len(swatches) == 14
    rgb = np.array([[int(v) for v in re.findall(r"\d+", one)[:3]] for one in colours], float)
    apart = np.linalg.norm(rgb[:, None] - rgb[None], axis=2) + 1e3 * np.eye(14)
    assert apart.min() > 40
    dots = browser.find_elements(By.CSS_SELECTOR, "#scores-chart circle")
    assert {browser.execute_script(colour, one, "fill") for one in dots} == set(colours)
    chart = browser.find_element(By.ID, "scores-chart").rect
    legend = browser.find_element(By.ID, "scores-legend").rect
    assert legend["y"] >= chart["y"] + chart["height"]  # outside the plot


def test_table_can_be_sorted_by_keyboard(browser, large):
    browser.get(large.as_uri())
    search = browser.find_element(By.ID, "search")
    search.send_keys(Keys.TAB)  # selected only
    browser.switch_to.active_element.send_keys(Keys.TAB)
    for key in ("rank", "name", "relevance", "frequency", "selected"):
        button = browser.switch_to.active_element
        assert button.get_attribute("data-key") == key
        button.send_keys(Keys.SPACE)
        head = button.find_element(By.XPATH, "..")
        first = head.get_attribute("aria-sort")
        button.send_keys(Keys.ENTER)
        assert {first, head.get_attribute("aria-sort")} == {"ascending", "descending"}
        assert browser.switch_to.active_element == button  # the focus does not move
        assert f", {head.get_attribute('aria-sort')}" in (
            f"{texts(browser, '#count')[0]}, ascending"  # the default order is not stated
        )
        button.send_keys(Keys.TAB)
    assert set(texts(browser, "#table td:nth-child(4)")) <= {"0%", "100%"}
