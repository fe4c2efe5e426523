"""What tests of the live page share: it is shown in a headless Chromium, beside a made-up coordinator."""

import time
import unittest

from selenium.webdriver.common.by import By

import browser
import fake_coordinator as fake


def clock(unix_seconds):
    """A time of day, as the page shows it."""
    return time.strftime("%H:%M:%S", time.localtime(unix_seconds))


class PageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = browser.start()

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def open(self, status, history=None, width=1280, scheme="light"):
        """Shows the page of a coordinator that says this; returns the coordinator."""
        steps = status["step"]
        if history is None:
            def history(points):
                return fake.history(steps, points)
        coordinator = fake.FakeCoordinator(status, history)
        self.addCleanup(coordinator.stop)
        browser.show(self.driver, width=width, scheme=scheme)
        browser.errors(self.driver)
        self.driver.get(coordinator.url)
        self.wait(lambda: self.text("#state") == status["state"], "the state")
        return coordinator

    def tearDown(self):
        self.driver.get("about:blank")  # or it would ask a coordinator that has ended

    def text(self, selector):
        return browser.text(self.driver, selector)

    def texts(self, selector):
        return browser.texts(self.driver, selector)

    def wait(self, condition, what):
        browser.wait(self.driver, condition, what)

    def canvas_colors(self, chart):
        """How many pixels of each colour the chart has, as (r, g, b)."""
        counts = self.driver.execute_script("""
            const counts = {};
            for (const canvas of document.querySelectorAll(`#${arguments[0]} canvas`)) {
              const {width, height} = canvas;
              const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
              for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] !== 255) continue;
                const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
                counts[key] = (counts[key] || 0) + 1;
              }
            }
            return counts;""", chart)
        return {tuple(map(int, key.split(","))): count for key, count in counts.items()}

    def color(self, name):
        """A colour of the style sheet, as (r, g, b)."""
        value = self.driver.execute_script(
            "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])",
            f"--{name}").strip().removeprefix("#")
        return tuple(int(value[at:at + 2], 16) for at in (0, 2, 4))

    def steady(self, steps, **changes):
        """A history whose steps all take 0.5 s, of which 0.1 s is in no phase."""
        seconds = {**dict.fromkeys(fake.phases(), 0), "forward": 0.2, "communication": 0.25,
                   "exposed_communication": 0.2}
        points = [fake.point(step, iteration_seconds=0.5, longest_seconds=0.6, loss=2.0,
                             samples_per_second=100, bytes_sent=40_000_000, phase_seconds=seconds)
                  for step in range(steps)]
        for step, change in changes.pop("points", {}).items():
            points[step].update(change)
        return lambda _: {"run": "a", "resolution": 1, "points": points}

    def tiles(self):
        return dict(zip(self.texts("#tiles dt"),
                        zip(self.texts("#tiles .value"), self.texts("#tiles .muted"))))

    def classes(self, selector):
        return [element.get_attribute("class")
                for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def tones(self, selector):
        return [element.get_attribute("data-tone")
                for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def from_module(self, name, body):
        """What the function body returns, which gets a module of the page as `m`."""
        return self.driver.execute_async_script(
            f"const done = arguments[0]; import('/assets/{name}.js').then("
            f"(m) => done((() => {{ {body} }})()));")
