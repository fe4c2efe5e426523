"""The live page of real runs, served by their coordinators."""

import re
import unittest

import browser
from launched_run import LaunchedRun


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = browser.start()
        browser.show(cls.driver)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()

    def tearDown(self):
        self.driver.get("about:blank")  # or it would ask a coordinator that has ended
        browser.errors(self.driver)

    def text(self, selector):
        return browser.text(self.driver, selector)

    def wait(self, condition, what):
        browser.wait(self.driver, condition, what, seconds=40)

    def step(self):
        found = re.match(r"Step (\d+) of", self.text("#progress-text"))
        return int(found[1]) if found else 0

    def test_run_appears_moves_on_and_shows_a_killed_worker(self):
        with LaunchedRun(workers=2, iterations=2000) as run:
            self.driver.get(run.url)
            self.wait(lambda: self.step() >= 3, "the first steps")
            self.assertEqual(self.text("#state"), "running")
            self.assertEqual(self.text("#settings"),
                             "vgg11 · synthetic · ddp · auto (memory) · fp32 · batch 2")
            self.assertEqual(len(browser.texts(self.driver, "#ranks tbody tr")), 2)
            self.assertRegex(self.text("#tiles .tile:nth-child(1) .value"), r"^[\d.]+ m?s$")
            seen = self.step()
            self.wait(lambda: self.step() > seen, "further steps")
            self.assertEqual(browser.errors(self.driver), [])
            run.kill(rank=1)
            self.wait(lambda: "rank 1" in self.text("#notice"), "the loss")
            self.assertEqual(self.text("#state"), "aborted")
            self.assertIn("lost", browser.texts(self.driver, "#ranks tbody tr")[1])
            events = browser.texts(self.driver, "#events li")
            self.assertTrue(any("lost" in event for event in events), events)

    def test_run_that_goes_on_shows_who_carries_the_lost_rank(self):
        with LaunchedRun(workers=3, iterations=2000, on_loss="recover") as run:
            self.driver.get(run.url)
            self.wait(lambda: self.step() >= 2, "the first steps")
            run.kill(rank=1)
            self.wait(lambda: self.text("#losses .what").startswith("Rank 1 was lost: "), "the loss")
            self.assertRegex(self.text("#losses .what"),
                             r" From step \d+ on: rank 1 on the worker of ranks (0, 1|1, 2) \(")
            self.assertIn("the others also carry rank 1", self.text("#notice"))
            self.assertEqual(self.text("#state"), "running")
            self.assertEqual(len(browser.texts(self.driver, "#ranks tbody tr")), 3)
            sharers = browser.texts(self.driver, "#ranks .sharers")
            self.assertEqual(sharers.count(""), 1, sharers)
            seen = self.step()
            self.wait(lambda: self.step() > seen, "further steps")
            self.assertEqual(browser.errors(self.driver), [])

    def test_finished_run_stays_to_be_read(self):
        with LaunchedRun(workers=1, iterations=8) as run:
            self.driver.get(run.url)
            self.wait(lambda: self.text("#state") == "finished", "the end")
            self.assertIn("Step 8 of 8 (100 %)", self.text("#progress-text"))
            self.wait(lambda: "The coordinator has ended" in self.text("#notice"), "its going")
            self.assertEqual(self.text("#state"), "finished")
            chart = browser.find(self.driver, "#loss-chart")
            self.assertEqual(chart.get_attribute("aria-valuemax"), "7")


if __name__ == "__main__":
    unittest.main()
