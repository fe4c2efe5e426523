"""A headless Chromium, and what tests and screenshots ask of a page in it."""

import os

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

OUT_OF_BOUNDS = " points out of Y bounds:"  # newer versions of dygraphs tell of what they do not draw


def start():
    """A browser; its owner calls quit()."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_page_load_timeout(20)
    driver.set_script_timeout(20)
    return driver


def show(driver, width=1280, height=900, scheme="light", scale=1):
    """Sets the size of the page in CSS pixels, and the colours that the reader prefers."""
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})


def find(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector)


def text(driver, selector):
    return find(driver, selector).text


def texts(driver, selector):
    return [element.text for element in driver.find_elements(By.CSS_SELECTOR, selector)]


def wait(driver, condition, what, seconds=15):
    """Until condition() is true."""
    return WebDriverWait(driver, seconds, 0.1).until(lambda _: condition(), what)


def errors(driver):
    """What the console has got since the last call, from warnings upwards."""
    return [entry["message"] for entry in driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING") and OUT_OF_BOUNDS not in entry["message"]]
