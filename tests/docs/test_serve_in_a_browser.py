"""The page of ``prosparse serve`` in a browser: from a file to the answer, without requests."""

import re
import shutil
import subprocess
import sys
import time

import pytest

import messy_tables

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")
pytest.importorskip("python_multipart", reason="python-multipart is not installed")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

UNLABELLED = """
return [...document.querySelectorAll('input, select, textarea, button')].filter(e =>
  e.type !== 'hidden' && !e.hidden && !(e.labels && e.labels.length) && !e.textContent.trim() &&
  !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby') && !e.title && !e.value
).map(e => e.outerHTML);
"""


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
def address(tmp_path_factory):
    command = [sys.executable, "-m", "prosparse", "serve", "--no-browser"]
    folder = tmp_path_factory.mktemp("serve")
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    yield re.search(r"http\S+", server.stdout.readline())[0]
    server.terminate()
    server.wait(30)
    server.stdout.close()


def wait(browser, selector):
    """Return the first element when it exists."""
    elements = WebDriverWait(browser, 120).until(
        lambda session: session.find_elements(By.CSS_SELECTOR, selector)
    )
    return elements[0]


def assert_sound(browser):
    """Check landmarks, labels, narrow screens, and the messages of the browser."""
    assert len(browser.find_elements(By.CSS_SELECTOR, "main")) == 1
    assert len(browser.find_elements(By.CSS_SELECTOR, "h1")) == 1
    assert browser.execute_script(UNLABELLED) == []
    metrics = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390
    problems = [e for e in browser.get_log("browser") if "favicon" not in e["message"]]
    assert problems == []
    hosts = browser.execute_script(
        "return [...new Set(performance.getEntriesByType('resource').map(r => "
        "new URL(r.name).host))]"
    )
    assert {*hosts} <= {browser.execute_script("return location.host")}


def test_from_a_file_to_the_answer(browser, address, tmp_path):
    table = messy_tables.visits(tmp_path, seed=0)
    browser.get(address)
    assert "token" not in browser.current_url  # exchanged for a cookie
    assert_sound(browser)
    file = wait(browser, "input[type=file]")
    file.send_keys(str(table.path))
    if "/setups/" not in browser.current_url:
        file.submit()
    role = Select(wait(browser, '[name="role:patient"]'))
    assert role.first_selected_option.get_attribute("value") == "groups"
    assert_sound(browser)
    # A change of a role is remembered after reloading.
    Select(wait(browser, '[name="role:visit"]')).select_by_value("ignored")
    WebDriverWait(browser, 120).until(
        lambda b: b.find_elements(
            By.CSS_SELECTOR, '[name="role:visit"] option[value=ignored][selected]'
        )
    )
    browser.refresh()
    role = Select(wait(browser, '[name="role:visit"]'))
    assert role.first_selected_option.get_attribute("value") == "ignored"
    browser.execute_script("arguments[0].click()", wait(browser, 'button[value="run"]'))
    time.sleep(0.5)
    browser.refresh()  # in the middle of the analysis
    answer = wait(browser, "section.answer").text
    n_selected = int(re.search(r"(\d+) of 40 variables were selected", answer)[1])
    assert abs(n_selected - len(table.shared)) <= 2
    wait(browser, "iframe")
    assert_sound(browser)
    # The history of the session, also in another tab.
    browser.switch_to.new_window("tab")
    browser.get(address.partition("?")[0])
    assert f"{n_selected} variables selected" in browser.find_element(By.TAG_NAME, "body").text
