"""The charts of the live page in a headless Chromium, beside a made-up coordinator."""

import unittest

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browser
import fake_coordinator as fake
from page_case import PageCase

STEPS = 10_000


class ChartsTest(PageCase):
    def test_phases_are_stacked_and_communication_is_not(self):
        self.open(fake.status(step=17))
        self.wait(lambda: self.canvas_colors("time-chart"), "the chart")
        seen = self.canvas_colors("time-chart")
        areas = {phase["title"]: seen.get(self.color(f"phase-{phase['name']}"), 0)
                 for phase in fake.PHASES}
        # In proportion to 0.12, 0.22, 0.08, 0.01 s.
        self.assertAlmostEqual(areas["backward"] / areas["forward"], 0.22 / 0.12, delta=0.1)
        self.assertAlmostEqual(areas["exposed"] / areas["forward"], 0.08 / 0.12, delta=0.1)
        self.assertGreater(areas["optimizer"], 0)
        self.assertEqual(areas["communication"], 0)

    def test_each_phase_has_its_line_in_the_legend_and_the_colour_of_the_list(self):
        self.open(fake.status(step=17))
        self.wait(lambda: self.texts("#legend tbody tr"), "the legend")
        legend = {label: (value, colour) for label, value, colour in self.driver.execute_script("""
            return [...document.querySelectorAll('#legend tbody tr')].map((row) => {
              const style = getComputedStyle(row.querySelector('.swatch'));
              return [row.querySelector('th span:nth-child(2)').textContent,
                      row.querySelector('td').textContent,
                      row.querySelector('.part') ? style.backgroundColor : style.borderTopColor];
            });""")}
        for phase in fake.PHASES:
            value, colour = legend[phase["label"]]
            self.assertRegex(value, r"^\d+(\.\d+)? ms$")
            rgb = tuple(int(phase["colour"][at:at + 2], 16) for at in (1, 3, 5))
            self.assertEqual(colour, f"rgb{rgb}")

    def test_phase_that_the_page_does_not_know_is_shown(self):
        phase = {"name": "checkpoint", "label": "checkpoint", "about": "writes a checkpoint",
                 "is_part": True, "colour": "#123456"}
        status = fake.status(step=17, phases=[*fake.PHASES, phase])
        points = [fake.point(step, phase_seconds={**fake.phases(), "checkpoint": 0.1})
                  for step in range(17)]
        self.open(status, lambda _: {"points": points})
        self.wait(lambda: self.canvas_colors("time-chart").get((0x12, 0x34, 0x56), 0) > 100,
                  "the phase in the chart")
        self.assertIn("checkpoint", self.text("#legend"))

    def test_new_steps_appear_by_themselves(self):
        coordinator = self.open(fake.status(step=17))
        coordinator.history = lambda points: fake.history(23, points)
        coordinator.status = fake.status(step=23)
        self.wait(lambda: "Step 23 of 196" in self.text("#progress-text"), "the new step")
        chart = self.driver.find_element(By.ID, "loss-chart")
        self.assertEqual(chart.get_attribute("aria-valuemax"), "22")

    def test_ten_thousand_steps_stay_smooth(self):
        coordinator = self.open(fake.status(step=STEPS, total_steps=12_000),
                                lambda points: fake.history(STEPS, points))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuemax") is not None, "the chart")
        self.assertLessEqual(len(coordinator.history(600)["points"]), 600)
        milliseconds = self.driver.execute_script("""
            const chart = document.getElementById('time-chart');
            const times = [];
            for (let i = 0; i < 5; ++i) {
              const start = performance.now();
              chart.dispatchEvent(new KeyboardEvent('keydown', {key: '0'}));
              times.push(performance.now() - start);
            }
            return times.sort((a, b) => a - b)[2];""")
        self.assertGreater(milliseconds, 0.5)
        self.assertLess(milliseconds, 250, "to draw all charts once")
        self.assertIn("Step 10,000 of 12,000", self.text("#progress-text"))
        self.assertEqual(browser.errors(self.driver), [])

    def test_a_step_that_takes_far_longer_leaves_the_others_legible(self):
        points = [fake.point(step) for step in range(40)]
        points[0] = fake.point(0, iteration_seconds=9.0, longest_seconds=9.5)
        self.open(fake.status(step=40), lambda _: {"run": "a", "resolution": 1, "points": points})
        self.wait(lambda: self.text("#beyond") == "1 beyond the scale", "the note")

    def test_legend_has_the_longest_of_any_step_and_what_no_phase_took(self):
        self.open(fake.status(step=40), self.steady(40, points={30: {"longest_seconds": 0.9}}))
        self.wait(lambda: self.texts("#legend tbody tr"), "the legend")
        rows = {label: cells for label, *cells in self.driver.execute_script("""
            return [...document.querySelectorAll('#legend tbody tr')].map((row) =>
              [row.querySelector('th span:nth-child(2)').textContent,
               ...[...row.querySelectorAll('td')].map((cell) => cell.textContent)]);""")}
        self.assertEqual(self.text("#legend-caption"), "Mean of the last 20 steps")
        self.assertEqual(rows["iteration"], ["500 ms", ""])
        self.assertEqual(rows["longest"], ["900 ms", ""])
        self.assertEqual(rows["forward"], ["200 ms", "40 %"])
        self.assertEqual(rows["other"], ["100 ms", "20 %"])

    def test_numbers_beside_the_charts_are_those_of_the_step_under_the_cursor(self):
        first = {"loss": 3.5, "bytes_sent": 160_000_000, "iteration_seconds": 1.0}
        self.open(fake.status(step=40), self.steady(40, points={0: first}))
        chart = self.driver.find_element(By.ID, "loss-chart")
        self.wait(lambda: chart.get_attribute("aria-valuenow") == "39", "the last step")
        numbers = ("#loss-value", "#exposed-value", "#link-value")
        self.assertEqual([self.text(name) for name in numbers], ["2", "40 %", "20 MB/s"])
        chart.send_keys(Keys.HOME)
        self.assertEqual([self.text(name) for name in numbers], ["3.5", "20 %", "40 MB/s"])
        self.assertEqual(chart.get_attribute("aria-valuetext"), "step 0: 3.5")
        self.assertEqual([browser.find(self.driver, f"#{name}-chart").get_attribute("aria-valuetext")
                          for name in ("exposed", "link")], ["step 0: 20 %", "step 0: 40 MB/s"])

    def test_keys_move_the_cursor_and_zoom(self):
        coordinator = self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuenow") == "39", "the last step")
        chart.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
        self.assertEqual(chart.get_attribute("aria-valuenow"), "1")
        self.assertRegex(chart.get_attribute("aria-valuetext"), r"^step 1: iteration \d+ ms: data ")
        self.assertEqual(self.text("#legend-caption"), "Step 1")
        chart.send_keys(Keys.ARROW_RIGHT, Keys.PAGE_UP, Keys.ARROW_LEFT)
        self.assertEqual(chart.get_attribute("aria-valuenow"), "11")
        chart.send_keys(Keys.PAGE_DOWN, Keys.PAGE_DOWN)
        self.assertEqual(chart.get_attribute("aria-valuenow"), "0")
        coordinator.requests.clear()
        chart.send_keys("+")
        self.assertTrue(self.driver.find_element(By.ID, "whole").is_displayed())
        self.wait(lambda: "/history.json?points=2000" in coordinator.requests, "single steps")
        chart.send_keys("-")
        self.assertFalse(self.driver.find_element(By.ID, "whole").is_displayed())
        chart.send_keys("+")
        self.assertTrue(self.driver.find_element(By.ID, "whole").is_displayed())
        chart.send_keys("0")
        self.assertFalse(self.driver.find_element(By.ID, "whole").is_displayed())

    def test_further_keys_move_the_cursor_and_zoom(self):
        self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        whole = self.driver.find_element(By.ID, "whole")
        self.wait(lambda: chart.get_attribute("aria-valuenow") == "39", "the last step")
        self.assertEqual(chart.get_attribute("aria-valuemin"), "0")
        chart.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_UP)
        self.assertEqual(chart.get_attribute("aria-valuenow"), "38")
        chart.send_keys(Keys.CONTROL, Keys.HOME)  # is the browser's
        self.assertEqual(chart.get_attribute("aria-valuenow"), "38")
        chart.send_keys("=")
        self.assertTrue(whole.is_displayed())
        chart.send_keys(Keys.ESCAPE)
        self.assertFalse(whole.is_displayed())
        chart.send_keys("+")
        whole.click()
        self.assertFalse(whole.is_displayed())

    def test_cursor_is_a_line_in_all_charts_until_the_chart_is_left(self):
        self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuenow") == "39", "the last step")
        lines = self.driver.find_elements(By.CSS_SELECTOR, ".chart .cursor")
        self.assertEqual([line.is_displayed() for line in lines], [False] * 4)
        chart.send_keys(Keys.HOME)
        self.assertEqual([line.is_displayed() for line in lines], [True] * 4)
        first = [line.location["x"] for line in lines]
        chart.send_keys(Keys.END)
        for line, x, name in zip(lines, first, ("time", "loss", "exposed", "link"), strict=True):
            width = self.driver.find_element(By.ID, f"{name}-chart").size["width"]
            self.assertGreater(line.location["x"], x + width / 2)
        chart.send_keys(Keys.TAB)
        self.assertEqual([line.is_displayed() for line in lines], [False] * 4)
        self.assertEqual(self.text("#legend-caption"), "Mean of the last 20 steps")

    def drag(self, chart, start, end):
        """Drags the mouse between two shares of the chart's width. Returns the widths of the selection
        before the button is released, and after it, when the mouse has moved on."""
        width = chart.size["width"]
        at = [round(share * width - width / 2) for share in (start, end)]
        mouse = ActionChains(self.driver, duration=10)
        mouse.move_to_element_with_offset(chart, at[0], 0).click_and_hold()
        mouse.move_to_element_with_offset(chart, at[1], 0).perform()
        selection = chart.find_element(By.CSS_SELECTOR, ".selection")
        dragged = selection.size["width"]
        ActionChains(self.driver, duration=10).release().move_by_offset(-20, 0).perform()
        return dragged, selection.size["width"]

    def test_drag_zooms_to_its_steps_and_a_double_click_shows_all(self):
        points = [fake.point(step) for step in range(40)]
        points[0] = fake.point(0, iteration_seconds=9.0, longest_seconds=9.5)
        self.open(fake.status(step=40), lambda _: {"run": "a", "resolution": 1, "points": points})
        chart = self.driver.find_element(By.ID, "time-chart")
        whole = self.driver.find_element(By.ID, "whole")
        self.wait(lambda: self.text("#beyond") == "1 beyond the scale", "the note")
        self.assertEqual(self.drag(chart, 0.5, 0.503)[1], 0)
        self.assertFalse(whole.is_displayed())  # a click, of a hand that is not quite still
        for start, end in ((0.4, 0.9), (0.9, 0.4)):
            dragged, left = self.drag(chart, start, end)
            self.assertAlmostEqual(dragged, chart.size["width"] / 2, delta=5)
            self.assertEqual(left, 0)
            self.assertTrue(whole.is_displayed())
            self.assertEqual(self.text("#beyond"), "")  # the long step is not shown any more
            ActionChains(self.driver).double_click(chart).perform()
            self.assertFalse(whole.is_displayed())
            self.assertEqual(self.text("#beyond"), "1 beyond the scale")
        self.assertRegex(self.text("#legend-caption"), "^Step ")
        ActionChains(self.driver).move_to_element(browser.find(self.driver, "#state")).perform()
        self.assertEqual(self.text("#legend-caption"), "Mean of the last 20 steps")

    def test_time_line_of_merged_steps(self):
        self.open(fake.status(step=17))
        found = self.from_module("charts", """
            const line = new m.Timeline(() => {});
            const rows = [{step: 0, steps: 10}, {step: 10, steps: 5}, {step: 15, steps: 5}];
            const shown = () => [line.window, line.range(), line.visible().map((row) => row.step)];
            const none = line.whole();
            line.update(rows, []);
            const nearest = [-3, 9.4, 9.6, 10, 14.4, 14.6, 99].map((step) => line.nearest(step));
            line.zoom(-100, 5);
            const left = shown();
            line.zoom(10.2, 13);
            const middle = shown();
            line.zoom(11, 12.9);
            const narrow = shown();
            line.zoom(-100, 100);
            const all = shown();
            line.moveCursor(2);
            line.update([{step: 0, steps: 10}, {step: 10, steps: 10}],
                        [{step: 0, kind: 'started'}, {step: 25, kind: 'lost'}, {kind: 'lost'}]);
            return {none, nearest, left, middle, narrow, all, cursor: line.cursor,
                    marks: line.marks.map((mark) => mark.step), whole: line.whole()};""")
        self.assertEqual(found, {
            "none": [-0.5, 0.5], "nearest": [0, 0, 1, 1, 1, 2, 2],
            "left": [[-0.5, 5], [-0.5, 5], [0]], "middle": [[10.2, 13], [10.2, 13], [10]],
            "narrow": [[10.2, 13], [10.2, 13], [10]], "all": [None, [-0.5, 19.5], [0, 10, 15]],
            "cursor": 1, "marks": [25], "whole": [-0.5, 25.5]})

    def test_scale_leaves_out_a_fiftieth_of_the_values_if_they_are_far_larger(self):
        self.open(fake.status(step=17))
        cases = [([], 1, 0), ([0, 0], 1, 0), ([2, 1, 2], 2.2, 0), ([1] * 50 + [2.9], 3.19, 0),
                 ([3] + [1] * 50, 1.3, 1), ([1] * 98 + [5, 1.2, 4], 1.56, 2), ([1] * 49 + [10] * 2, 11, 0)]
        for values, top, beyond in cases:
            found = self.from_module("charts", f"return m.scaleOf({values});")
            self.assertAlmostEqual(found["top"], top, msg=values)
            self.assertEqual(found["beyond"], beyond, values)

    def test_page_asks_for_as_many_points_as_the_chart_is_wide(self):
        for width in (1280, 390, 150):
            coordinator = self.open(fake.status(step=17), width=width)
            chart = self.driver.execute_script(
                "return document.getElementById('time-chart').clientWidth")
            wanted = min(600, max(150, chart))
            self.wait(lambda: f"/history.json?points={wanted}" in coordinator.requests, width)

    def test_zoomed_page_asks_for_single_steps(self):
        coordinator = self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuenow") == "39", "the last step")
        self.assertNotIn("/history.json?points=2000", coordinator.requests)
        chart.send_keys(Keys.HOME, "+")
        self.wait(lambda: "/history.json?points=2000" in coordinator.requests, "the next request")

    def test_another_run_without_steps_under_the_mouse_is_followed(self):
        coordinator = self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuemax") == "39", "the chart")
        coordinator.history = lambda points: fake.history(0, points)
        coordinator.status = fake.status(step=0, run="0123456789abcdef")
        self.wait(lambda: self.text("#run") == "0123456789abcdef", "the next run")
        self.driver.execute_script(
            "arguments[0].dispatchEvent(new PointerEvent('pointermove', {clientX: 300}))", chart)
        coordinator.history = lambda points: fake.history(3, points)
        coordinator.status = fake.status(step=3, run="0123456789abcdef")
        self.wait(lambda: chart.get_attribute("aria-valuemax") == "2", "the steps of the next run")
        self.assertEqual(browser.errors(self.driver), [])


if __name__ == "__main__":
    unittest.main()
