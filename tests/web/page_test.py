"""The live page in a headless Chromium, beside a made-up coordinator."""

import copy
import time
import unittest

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import browser
import fake_coordinator as fake
from page_case import PageCase, clock


class PageTest(PageCase):
    def test_running_shows_the_numbers_with_their_units(self):
        self.open(fake.status(step=17))
        self.assertIn("Step 17 of 196 (8.7 %)", self.text("#progress-text"))
        self.assertIn("left, until about", self.text("#progress-text"))
        self.assertRegex(self.text("#view"), r"^view 1 · 4 ranks · since \d\d:\d\d:\d\d$")
        track = browser.find(self.driver, "#track")
        self.assertEqual((track.get_attribute("aria-valuenow"), self.driver.title),
                         ("9", "8 % running · Gradwire"))
        self.assertRegex(browser.find(self.driver, "#fill").get_attribute("style"), r"width: 8\.67\d+%")
        self.assertEqual(self.text("#settings"),
                         "vgg11 · synthetic · ddp · sharded · fp32 · batch 64")
        tiles = dict(zip(self.texts("#tiles dt"), self.texts("#tiles .value")))
        self.assertRegex(tiles["Iteration"], r"^4\d\d ms$")
        self.assertRegex(tiles["Exposed communication"], r"^1\d %$")
        self.assertRegex(tiles["Throughput"], r"^\d{3} samples/s$")
        self.assertRegex(tiles["Sent by each rank"], r"^1\d\d MB/s$")
        self.assertEqual(len(self.texts("#ranks tbody tr")), 4)
        self.assertEqual(browser.errors(self.driver), [])

    def test_peak_memory_of_each_worker_is_in_the_table(self):
        status = fake.status(step=17)
        status["ranks"][1]["peak_memory_bytes"] = 0
        self.open(status)
        self.assertEqual(self.texts("#ranks td[data-label='Peak memory']"),
                         ["412 MB", "–", "412 MB", "412 MB"])

    def test_tiles_are_means_of_the_last_twenty_steps_and_of_one_rank_s_bytes(self):
        last = {step: {"iteration_seconds": 1.0, "loss": 4.0, "samples_per_second": 20}
                for step in range(35, 40)}
        last[0] = {"iteration_seconds": 90, "loss": 90}
        self.open(fake.status(step=40), self.steady(40, points=last))
        tiles = self.tiles()
        self.assertEqual(tiles["Iteration"], ("625 ms", "mean of 20 steps"))
        self.assertEqual(tiles["Exposed communication"], ("32 %", "200 ms of 625 ms"))
        # 15 times 50 samples in 0.5 s, and 5 times 20 samples in 1 s.
        self.assertEqual(tiles["Throughput"], ("68 samples/s", "all ranks"))
        self.assertEqual(tiles["Loss"], ("2.5", "mean of 20 steps"))
        # Of four ranks: 10 MB in 0.5 s, in a quarter of the steps in 1 s.
        self.assertEqual(tiles["Sent by each rank"], ("16 MB/s", "128 Mbit/s"))
        # 156 steps of 625 ms.
        self.assertIn(" · 1 min 38 s left, until about ", self.text("#progress-text"))

    def test_throughput_below_one_sample_per_second_is_not_none(self):
        slow = {step: {"samples_per_second": 0.25} for step in range(40)}
        self.open(fake.status(step=40), self.steady(40, points=slow))
        self.assertEqual(self.tiles()["Throughput"], ("0.25 samples/s", "all ranks"))

    def test_merged_steps_count_as_many_and_loss_that_is_not_known_not_at_all(self):
        points = {0: {"steps": 10}, 1: {"step": 10, "steps": 5, "iteration_seconds": 1, "loss": None},
                  2: {"step": 15, "steps": 5, "iteration_seconds": 2, "loss": 5.0}}
        self.open(fake.status(step=20), self.steady(3, points=points))
        tiles = self.tiles()
        self.assertEqual(tiles["Iteration"], ("1 s", "mean of 20 steps"))
        self.assertEqual(tiles["Loss"], ("3", "mean of 20 steps"))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuenow") is not None, "the chart")
        chart.send_keys(Keys.END)
        self.assertEqual(self.text("#legend-caption"), "Steps 15 to 19")

    def test_bars_of_ranks_share_the_scale_of_the_longest_iteration(self):
        status = fake.status(step=40, ranks=2)
        none = dict.fromkeys(fake.phases(), 0)
        for rank, seconds in zip(status["ranks"], (0.4, 0.8)):
            rank.update(iteration_seconds=seconds,
                        phase_seconds={**none, "forward": 0.2, "communication": 0.1})
        self.open(status)
        bars = self.driver.execute_script("""
            return [...document.querySelectorAll('#ranks .bar')].map((bar) =>
              [bar.getAttribute('aria-label'), [...bar.children].map((part) => part.style.width)
                .filter((width) => width !== '0%')]);""")
        self.assertEqual(bars, [["forward 200 ms, other 200 ms", ["25%", "25%"]],
                                ["forward 200 ms, other 600 ms", ["25%", "75%"]]])

    def test_each_rank_has_its_own_times(self):
        status = fake.status(step=40)
        status["ranks"][1].update(iteration_seconds=0.5, work_seconds=0.4, loss=1.25)
        status["ranks"][1]["phase_seconds"]["exposed_communication"] = 0.1
        status["ranks"][2].update(steps_done=0)
        self.open(status)
        cells = {name: self.texts(f"#ranks td[data-label='{name}']")[:3]
                 for name in ("Loss", "Iteration", "Own work", "Exposed", "Last heard")}
        self.assertEqual(cells, {"Loss": ["2.1", "1.25", "2.1"],
                                 "Iteration": ["431 ms", "500 ms", "–"],
                                 "Own work": ["350 ms", "400 ms", "–"],
                                 "Exposed": ["19 %", "20 %", "–"],
                                 "Last heard": ["0.2 s ago"] * 3})

    def test_run_that_resumes_has_no_numbers_of_ranks_before_its_first_step(self):
        status = fake.status(step=0, total_steps=0)
        for rank in status["ranks"]:
            rank["steps_done"] = 40  # of the checkpoint
        self.open({**status, "step": 40}, lambda _: {"points": []})
        self.assertEqual(self.texts("#ranks td[data-label='Steps']"), ["40"] * 4)
        for name in ("Loss", "Iteration", "Own work", "Exposed"):
            self.assertEqual(self.texts(f"#ranks td[data-label='{name}']"), ["–"] * 4, name)
        self.assertEqual(self.tones("#ranks td:nth-child(5)"), ["quiet"] * 4)

    def test_own_work_is_compared_with_the_median_of_the_others_that_have_some(self):
        status = fake.status(step=40, ranks=6)
        for rank, work in zip(status["ranks"], (0.2, 0.3, 0.4, 0.9, 0.8, 0)):
            rank["work_seconds"] = work
        status["slowest_rank"] = 4
        self.open(status)
        self.assertEqual(self.text("#slowest"),
                         "Rank 4 holds up the others: its own work takes 800 ms per iteration, "
                         "450 ms or 129 % more than the median of the others.")
        self.assertEqual(self.tiles()["Slowest rank"], ("rank 4", "129 % over the others"))

    def test_loss_with_several_carriers_names_each(self):
        status = fake.with_loss(fake.status(step=30))
        status["failures"]["last"][0].update(ranks=[2, 3], carriers=[
            {"address": "a:1", "ranks": [0, 2], "adopted": [2]},
            {"address": "b:1", "ranks": [1, 3], "adopted": [3]}], first_step=8)
        self.open(status)
        self.assertEqual(
            self.text("#losses .what"), "Ranks 2, 3 were lost: its session stream broke. From step "
            "8 on: rank 2 on the worker of ranks 0, 2 (a:1); rank 3 on the worker of ranks 1, 3 "
            "(b:1). 412 ms lost.")

    def test_rank_that_was_lost_twice_is_named_once(self):
        first = fake.with_loss(fake.status(step=30), lost=2, by=1, step=7)
        status = fake.with_loss(first, lost=1, by=3, step=9)
        status["failures"]["last"][0]["ranks"] = [1, 2]
        status["failures"].update(losses=2, last=[*first["failures"]["last"],
                                                  *status["failures"]["last"]])
        self.open(status)
        self.assertIn("the others also carry ranks 1, 2, so", self.text("#notice"))
        status["failures"]["last"][0]["ranks"] = [10, 2]
        self.open(status)
        self.assertIn("the others also carry ranks 1, 2, 10, so", self.text("#notice"))

    def test_ledger_that_is_not_on_the_disk_any_more_says_why_unless_a_rank_is_silent(self):
        status = fake.with_loss(fake.status(step=30, not_durable="no space left on device"))
        self.open(status)
        self.assertEqual(self.text("#notice"),
                         "Steps are not recorded any more: no space left on device.")
        status["ranks"][0]["heard_seconds"] = 5
        self.open(status)
        self.assertEqual(self.text("#notice"), "Rank 0 silent for more than 3 s.")

    def test_run_that_is_over_took_until_its_last_event(self):
        started = time.time() - 1000
        events = [{"time": started + seconds, "step": 3, "kind": "started", "text": "t"}
                  for seconds in (0, 125, 60)]
        self.open(fake.status(step=196, state="finished", reason="all ranks finished",
                              started=started, events=events))
        self.assertRegex(self.text("#progress-text"), r"\(100 %\) · 2 min 05 s in all$")
        self.assertEqual(self.driver.title, "100 % finished · Gradwire")

    def test_straggler_is_named_with_its_excess(self):
        status = fake.status(step=40)
        status["ranks"][2] = fake.rank(2, 40, work=0.49)
        status["slowest_rank"] = 2
        self.open(status)
        self.assertEqual(self.text("#slowest"),
                         "Rank 2 holds up the others: its own work takes 490 ms per iteration, "
                         "140 ms or 40 % more than the median of the others.")
        self.assertEqual(self.texts("#ranks .tag"), ["", "", "slowest", ""])

    def test_even_ranks_are_called_even(self):
        status = fake.status(step=40)
        status["ranks"][3]["work_seconds"] = 0.357
        self.open(status)
        self.assertEqual(self.text("#slowest"),
                         "The ranks are even: the slowest, rank 3, needs 2 % more than the "
                         "median of the others for its own work.")

    def test_ranks_that_differ_by_chance_have_no_slowest(self):
        status = fake.status(step=40)
        status["slowest_rank"] = None
        self.open(status)
        self.assertEqual(self.text("#slowest"),
                         "The ranks are even: their own work differs by chance only.")
        self.assertIn("no rank stands out", self.texts("#tiles .muted"))

    def test_served_model_says_how_far_its_ranks_are_apart(self):
        status = fake.status(step=17)
        status["settings"] = {**fake.SETTINGS, "sync": "parameter-server", "staleness": "4"}
        for rank, lag, spread in zip(status["ranks"], (3, 0, 1, 1), (1, 3, 2, 2)):
            rank.update(steps_done=20 - lag, lag=lag, spread=spread)
        self.open(status)
        self.assertIn("The clocks of the ranks are 3 steps apart; staleness bound: 4.",
                      self.text("#slowest"))
        cells = self.texts("#ranks td[data-label='Steps']")
        self.assertEqual(cells, ["17 (3 behind)", "20", "19 (1 behind)", "19 (1 behind)"])

    def test_compressed_gradients_say_what_it_does(self):
        status = fake.status(step=17)
        for rank, ratio in zip(status["ranks"], (4, 4, 2, 5)):
            rank.update(compression_ratio=ratio)
        status["ranks"][1].update(residual_norm=0.2)
        status["ranks"][2].update(residual_norm=0.5)
        self.open(status)
        self.assertIn("Gradients are sent in 30 % of their bytes; the norm of what is left out so "
                      "far is up to 50 % of theirs.", self.text("#slowest"))

    def test_lost_worker_is_in_notice_table_events_and_charts(self):
        cause = "rank 1 (10.10.1.2:45275) was lost in step 30: its session stream broke"
        status = fake.status(step=30, state="aborted", reason=cause)
        status["ranks"][1].update(state="lost", heard_seconds=None)
        status["events"].append({"time": time.time(), "step": 30, "kind": "lost", "text": cause})
        self.open(status)
        self.assertEqual(self.text("#notice"), f"The run was aborted: {cause}.")
        self.assertIn("lost", self.texts("#ranks tbody tr")[1])
        self.assertEqual(self.classes("#ranks tbody tr"), ["", "lost", "", ""])
        self.assertEqual(self.tones("#ranks td:nth-child(3) .pill"), ["run", "bad", "run", "run"])
        self.assertIn(cause, self.texts("#events li")[0])
        self.wait(lambda: self.canvas_colors("loss-chart"), "the chart")
        for chart in ("time-chart", "loss-chart", "exposed-chart", "link-chart"):
            self.assertGreater(self.canvas_colors(chart).get(self.color("tone-bad"), 0), 20, chart)

    def test_run_that_goes_on_says_who_was_lost_and_who_carries_on(self):
        self.open(fake.with_loss(fake.status(step=30)))
        self.assertEqual(
            self.text("#notice"), "The run continues, but a worker was lost: the others also carry "
            "rank 2, so a step takes as long as on the worker with the most ranks.")
        self.assertEqual(self.text("#losses-sum"), "1 worker, 412 ms in all")
        self.assertEqual(
            self.text("#losses .what"), "Rank 2 was lost: its session stream broke. From step 7 on: "
            "rank 2 on the worker of ranks 1, 2 (10.10.1.2:29401). 412 ms lost.")
        self.assertEqual(self.texts("#ranks .sharers"), ["", "with rank 2", "with rank 1", ""])

    def test_all_losses_are_counted_and_the_latest_is_the_first_of_the_list(self):
        first = fake.with_loss(fake.status(step=30), lost=2, by=1, step=7)
        status = fake.with_loss(first, lost=0, by=3, step=9)
        status["failures"].update(losses=2, seconds_lost=0.9,
                                  last=first["failures"]["last"] + status["failures"]["last"])
        self.open(status)
        self.assertIn("but 2 workers were lost: the others also carry ranks 0, 2, so",
                      self.text("#notice"))
        self.assertEqual(self.text("#losses-sum"), "2 workers, 900 ms in all")
        self.assertEqual([what.split(" was")[0] for what in self.texts("#losses .what")],
                         ["Rank 0", "Rank 2"])
        times = [clock(loss["time"]) for loss in status["failures"]["last"]]
        self.assertEqual(self.texts("#losses .when"),
                         [f"{times[1]} · step 9", f"{times[0]} · step 7"])

    def test_slowest_rank_that_shares_its_worker_has_its_reason(self):
        status = fake.with_loss(fake.status(step=30), lost=2, by=3)
        status["ranks"][3]["work_seconds"] = 0.7
        self.open(status)
        self.assertTrue(self.text("#slowest").endswith(" Its worker also carries rank 2."),
                        self.text("#slowest"))

    def test_slowest_rank_is_not_compared_with_those_of_its_worker(self):
        status = fake.status(step=30)
        for rank, work in zip(status["ranks"], (0.3, 0.9, 0.9, 0.9)):
            rank["work_seconds"] = work
            rank["address"] = "10.10.1.1:5" if rank["rank"] == 0 else "10.10.1.2:5"
        status["slowest_rank"] = 1
        self.open(status)
        self.assertIn("Rank 1 holds up the others: its own work takes 900 ms per iteration, 600 ms",
                      self.text("#slowest"))

    def test_worker_that_carries_all_ranks_is_compared_with_none(self):
        self.open(fake.with_loss(fake.status(step=30, ranks=2, slowest_rank=None), lost=0, by=1))
        self.assertEqual(self.text("#slowest"),
                         "One worker carries all ranks, so there is nothing to compare.")
        self.assertEqual(self.tiles()["Slowest rank"], ("–", "nothing to compare"))

    def test_loss_that_nobody_carries_on_has_no_cost(self):
        status = fake.with_loss(fake.status(step=30))
        status["failures"]["last"][0].update(carriers=[], seconds_lost=None, first_step=None)
        self.open(status)
        self.assertEqual(self.text("#losses .what"), "Rank 2 was lost: its session stream broke.")

    def test_loss_whose_cost_no_worker_has_told_yet_names_the_carrier_alone(self):
        status = fake.with_loss(fake.status(step=30))
        status["failures"]["last"][0].update(seconds_lost=None)
        self.open(status)
        self.assertTrue(self.text("#losses .what").endswith("(10.10.1.2:29401)."),
                        self.text("#losses .what"))

    def test_without_a_loss_there_is_nothing_about_losses(self):
        self.open(fake.status(step=30))
        self.assertFalse(browser.find(self.driver, "#losses-card").is_displayed())
        self.assertEqual(set(self.texts("#ranks .sharers")), {""})

    def test_silent_rank_is_told(self):
        status = fake.status(step=30)
        status["ranks"][1]["heard_seconds"] = 5.4
        self.open(status)
        self.assertEqual(self.text("#notice"), "Rank 1 silent for more than 3 s.")
        self.assertEqual(self.text("#state"), "running")
        self.assertEqual(self.tones("#notice"), ["warn"])
        self.assertEqual(self.tones("#ranks td:nth-child(10)"), ["quiet", "warn", "quiet", "quiet"])

    def test_all_silent_ranks_are_told(self):
        status = fake.status(step=30)
        for rank, heard in zip(status["ranks"], (0.1, 5.4, 3.0, 9.0)):
            rank["heard_seconds"] = heard
        self.open(status)
        self.assertEqual(self.text("#notice"), "Ranks 1, 3 silent for more than 3 s.")

    def test_rank_that_does_not_run_any_more_is_not_silent(self):
        status = fake.status(step=30)
        status["ranks"][1].update(state="finished", heard_seconds=60)
        self.open(status)
        self.assertEqual(self.text("#notice"), "")
        self.assertEqual(self.tones("#ranks td:nth-child(10)"), ["quiet"] * 4)

    def test_lost_rank_that_nobody_carries_yet_is_told_before_silent_ones(self):
        status = fake.status(step=30)
        status["ranks"][0]["heard_seconds"] = 5
        for rank in (1, 3):
            status["ranks"][rank]["state"] = "lost"
        self.open(status)
        self.assertEqual(self.text("#notice"), "Ranks 1, 3 lost.")
        self.assertEqual(self.tones("#notice, #state"), ["bad", "bad"])

    def test_straggler_is_marked_wherever_it_is_shown(self):
        status = fake.status(step=40)
        status["ranks"][2]["work_seconds"] = 0.49
        status["slowest_rank"] = 2
        self.open(status)
        self.assertEqual(self.tones("#slowest, .tile:last-child"), ["warn", "warn"])
        self.assertEqual(self.tones("#ranks td:nth-child(7)"), ["quiet", "quiet", "warn", "quiet"])
        self.assertEqual(self.classes("#ranks tbody tr"), ["", "", "straggler", ""])

    def test_rank_is_a_straggler_from_a_tenth_more_than_the_others(self):
        status = fake.status(step=40)
        for work, word in ((0.38, "The ranks are even: the slowest, rank 3, needs 8.6 %"),
                           (0.39, "Rank 3 holds up the others: ")):
            status["ranks"][3]["work_seconds"] = work
            self.open(status)
            self.assertIn(word, self.text("#slowest"))

    def test_ranks_whose_address_is_not_known_share_no_worker(self):
        status = fake.status(step=40)
        for rank in status["ranks"]:
            rank["address"] = ""
        self.open(status)
        self.assertEqual(set(self.texts("#ranks .sharers")), {""})
        self.assertEqual(self.tiles()["Slowest rank"], ("rank 3", "0 % over the others"))

    def test_rank_that_is_slowest_by_little_is_not_marked(self):
        self.open(fake.status(step=40))
        self.assertEqual(self.tones("#slowest, .tile:last-child"), ["quiet", "quiet"])
        self.assertEqual(self.tones("#ranks td:nth-child(7)"), ["quiet"] * 4)
        self.assertEqual(set(self.texts("#ranks .tag")), {""})

    def test_events_have_their_step_and_tone_and_the_latest_is_first(self):
        kinds = ("started", "suspect", "lost", "recovered")
        events = [{"time": fake.NOON + number, "step": 1000 * number, "kind": kind, "text": kind}
                  for number, kind in enumerate(kinds)]
        self.open(fake.status(step=4000, events=events))
        self.assertEqual(self.texts("#events .pill"), [*reversed(kinds)])
        self.assertEqual(self.texts("#events .when"), [
            f"{clock(fake.NOON + number)} · step {number},000".replace("0,000", "0")
            for number in (3, 2, 1, 0)])
        self.assertEqual(self.tones("#events .pill"), ["good", "bad", "warn", "quiet"])

    def test_loss_that_is_not_finite_is_marked_and_one_that_no_rank_tells_is_not(self):
        points = {step: {"loss": None} for step in range(40)}
        status = fake.status(step=40)
        self.open(status, self.steady(40, points=points))
        self.assertEqual((self.tiles()["Loss"], self.tones(".tile:nth-child(4)")),
                         (("–", "mean of 20 steps"), ["bad"]))
        for rank in status["ranks"]:
            del rank["loss"]
        self.open(status, self.steady(40, points=points))
        self.assertEqual(self.tones(".tile:nth-child(4)"), ["quiet"])

    def test_one_rank_alone_is_compared_with_none(self):
        self.open(fake.status(step=40, ranks=1))
        self.assertEqual(self.text("#slowest"), "")
        self.assertEqual(self.tiles()["Slowest rank"], ("–", "nothing to compare"))
        self.assertRegex(self.text("#view"), "^view 1 · 1 rank · ")

    def test_history_that_does_not_come_is_no_loss_of_the_coordinator(self):
        coordinator = self.open(fake.status(step=17))
        self.wait(lambda: len(self.texts("#tiles .value")) == 6, "the tiles")
        coordinator.history = lambda _: None
        before = len(coordinator.requests)
        self.wait(lambda: sum("history" in path for path in coordinator.requests[before:]) > 3,
                  "further requests")
        self.assertEqual(self.text("#state"), "running")
        self.assertRegex(self.tiles()["Iteration"][0], r"^4\d\d ms$")

    def test_paused_run_says_for_whom_it_waits(self):
        reason = "rank 2 (10.10.1.4:4711) is not heard: it was silent for 2 s; the run is paused"
        self.open(fake.status(step=30, state="paused", reason=reason))
        self.assertEqual(self.text("#state"), "paused")
        self.assertEqual(self.text("#notice"), f"{reason}.")
        self.assertRegex(self.text("#progress-text"), r"13 s so far$")

    def test_waiting_for_workers_has_no_chart_and_no_numbers(self):
        reason = "1 of 2 workers are present"  # which carries two of the ranks
        status = fake.status(step=0, state="waiting", reason=reason, ranks=2, world_size=4,
                             started=None, settings={}, total_steps=0, events=[])
        self.open(status)
        self.assertEqual(self.text("#notice"), f"{reason}.")
        self.assertEqual(browser.find(self.driver, "#track").get_attribute("aria-valuenow"), None)
        self.assertEqual(set(self.texts("#tiles .value")), {"–"})
        self.assertEqual(self.text("#slowest"), "Nothing to compare yet.")
        self.assertEqual(browser.errors(self.driver), [])

    def test_last_checkpoint_is_told(self):
        self.open(fake.status(step=17))
        self.assertNotIn("checkpoint", self.text("#progress-text"))
        self.open(fake.status(step=17, checkpoint={"step": 16, "age_seconds": 125.2}))
        self.assertIn("last checkpoint before step 16, 2 min 05 s old",
                      self.text("#progress-text"))

    def test_coordinator_that_is_gone_leaves_its_last_words(self):
        coordinator = self.open(fake.status(step=17))
        coordinator.stop()
        coordinator.stop = lambda: None
        self.wait(lambda: self.text("#state") == "no answer", "the loss of the coordinator")
        said = self.text("#notice")
        self.assertIn("The coordinator does not answer", said)
        self.assertIn(said.partition(" report, from ")[2][:8],
                      [clock(time.time() - ago) for ago in range(20)])
        self.assertEqual(self.classes("body"), ["gone"])
        self.assertIn("Step 17 of 196", self.text("#progress-text"))
        self.assertNotIn("left", self.text("#progress-text"))
        self.assertEqual(len(self.texts("#ranks tbody tr")), 4)

    def test_coordinator_that_answers_again_is_no_loss(self):
        coordinator = self.open(fake.status(step=17))
        coordinator.stop()
        coordinator.stop = lambda: None
        self.wait(lambda: self.text("#state") == "no answer", "the loss of the coordinator")
        again = fake.FakeCoordinator(fake.status(step=18), coordinator.history, coordinator.port)
        self.addCleanup(again.stop)
        self.wait(lambda: self.text("#state") == "running", "the coordinator's return")
        self.assertIn("left", self.text("#progress-text"))
        self.assertEqual(self.classes("body"), [""])

    def test_coordinator_that_ends_after_a_finished_run_is_no_loss(self):
        status = fake.status(step=196, state="finished", reason="all ranks finished")
        coordinator = self.open(status)
        coordinator.stop()
        coordinator.stop = lambda: None
        self.wait(lambda: "has ended" in self.text("#notice"), "the end of the coordinator")
        self.assertEqual(self.text("#state"), "finished")

    def test_coordinator_that_ends_after_an_aborted_run_leaves_the_reason(self):
        coordinator = self.open(fake.status(step=30, state="aborted", reason="rank 2 was lost"))
        coordinator.stop()
        coordinator.stop = lambda: None
        self.wait(lambda: "has ended" in self.text("#notice"), "the end of the coordinator")
        self.assertEqual(self.text("#state"), "aborted")
        self.assertIn("The run was aborted: rank 2 was lost.", self.text("#notice"))

    def test_html_in_texts_stays_text(self):
        evil = ("<img src=x onerror=\"document.title='taken'\">"
                "<script>document.title='taken'</script>")
        status = fake.status(step=5, run=evil, state="aborted", reason=evil, version=evil)
        status["settings"] = {"model": evil, evil: evil}
        status["ranks"][0].update(address=evil, state=evil)
        status["events"] = [{"time": time.time(), "step": 3, "kind": evil, "text": evil}]
        self.open(status)
        self.assertIn("<img src=x", self.text("#notice"))
        self.assertIn("<img src=x", self.text("#events .what"))
        self.assertIn("<img src=x", self.text("#ranks tbody td:nth-child(2)"))
        self.assertEqual(self.driver.find_elements(By.CSS_SELECTOR, "img, body script"), [])
        self.assertNotEqual(self.driver.title, "taken")
        self.assertEqual(browser.errors(self.driver), [])

    def test_null_and_missing_values_are_dashes(self):
        status = fake.status(step=5)
        status["ranks"][0].update(loss=None, heard_seconds=None, phase_seconds={})
        del status["ranks"][1]["iteration_seconds"], status["events"][0]["time"]
        points = [fake.point(0, loss=None), fake.point(1, loss=None, phase_seconds={}),
                  fake.point(2, iteration_seconds=0, samples_per_second=None, bytes_sent=None),
                  {"step": 3, "steps": 2}]
        self.open(status, lambda _: {"run": "a", "resolution": 1, "points": points})
        self.assertIn("not finite", self.texts("#ranks tbody tr")[0])
        body = self.text("body")
        for word in ("NaN", "undefined", "Infinity", "null", "[object"):
            self.assertNotIn(word, body)
        self.assertEqual(browser.errors(self.driver), [])

    def test_phone_has_no_horizontal_scroll(self):
        status = fake.status(step=40)
        status["ranks"][2] = fake.rank(2, 40, work=0.49,
                                        address="worker-2.training.example.org:29401")
        status["slowest_rank"] = 2
        status = fake.with_loss(status, lost=3, by=2)
        self.open(status, width=390)
        self.wait(lambda: self.canvas_colors("time-chart"), "the chart")
        width = self.driver.execute_script("return document.documentElement.scrollWidth")
        self.assertEqual(width, 390)
        outside = self.driver.execute_script("""
            return [...document.querySelectorAll('body *')]
              .filter((e) => !e.closest('thead') && e.getBoundingClientRect().right > 391)
              .map((e) => e.outerHTML.slice(0, 80));""")
        self.assertEqual(outside, [])

    def test_colours_follow_the_reader_also_while_open(self):
        self.open(fake.status(step=17), scheme="dark")
        ground = "return getComputedStyle(document.body).backgroundColor"
        dark = self.driver.execute_script(ground)
        self.wait(lambda: self.color("muted") in self.canvas_colors("time-chart"),
                  "the dark chart")
        browser.show(self.driver, scheme="light")
        self.assertNotEqual(self.driver.execute_script(ground), dark)
        self.wait(lambda: self.color("muted") in self.canvas_colors("time-chart"),
                  "the light chart")

    def test_each_kind_of_event_and_state_has_its_tone(self):
        self.open(fake.status(step=17))
        tones = {"bad": ["lost", "aborted", "not-finite", "not-durable", "paused"],
                 "warn": ["checkpoint failed", "suspect", "straggler"],
                 "good": ["finished", "recovered", "resumed"], "run": ["running"],
                 "quiet": ["waiting", "toString"]}
        kinds = {kind: tone for tone, kinds in tones.items() for kind in kinds}
        self.assertEqual(self.from_module("model", f"return {[*kinds]}.map(m.toneOf);"),
                         [*kinds.values()])

    def test_notice_of_each_state(self):
        self.open(fake.status(step=17))
        for state, reason, expected in (
                ("paused", "rank 1 is not heard", ("bad", "rank 1 is not heard.")),
                ("waiting", "1 of 2 workers are present", ("quiet", "1 of 2 workers are present.")),
                ("finished", "", ("good", "The run has finished.")),
                ("finished", "all ranks finished!", ("good", "all ranks finished!")),
                ("aborted", "no rank is left.", ("bad", "The run was aborted: no rank is left.")),
                ("dreaming", "", ("quiet", ""))):
            found = self.from_module(
                "notice", f"return m.noticeOf({{state: '{state}', reason: '{reason}'}});")
            self.assertEqual(found, {"tone": expected[0], "state": state, "text": expected[1]})

    def test_coordinator_that_never_answered_is_told_at_once(self):
        coordinator = fake.FakeCoordinator(None, lambda _: None)
        self.addCleanup(coordinator.stop)
        browser.show(self.driver)
        self.driver.get(coordinator.url)
        self.wait(lambda: self.text("#state") == "no answer", "the notice")
        self.assertEqual(self.text("#notice"), "The coordinator does not answer. Trying again.")
        self.assertEqual(self.driver.title, "no answer · Gradwire")
        coordinator.history = lambda points: fake.history(17, points)
        coordinator.status = fake.status(step=17)
        self.wait(lambda: self.text("#state") == "running", "the state")

    def test_one_step_is_no_steps(self):
        self.open(fake.status(step=1), self.steady(1))
        self.assertEqual(self.tiles()["Iteration"], ("500 ms", "mean of 1 step"))
        self.assertEqual(self.text("#legend-caption"), "Mean of the last 1 step")

    def test_hidden_page_asks_less_often(self):
        coordinator = self.open(fake.status(step=40))
        self.driver.execute_script("""
            Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});""")
        before = len(coordinator.requests)
        self.wait(lambda: len(coordinator.requests) > before, "the last quick request")
        time.sleep(0.5)  # it may ask for more than one page
        before = len(coordinator.requests)
        time.sleep(2.5)
        self.assertEqual(len(coordinator.requests), before)

    def test_head_of_the_page_names_view_ranks_and_version(self):
        self.open(fake.status(step=17, epoch=5, generation=3, version="1.2.3"))
        self.assertRegex(self.text("#view"), r"^view 3 · 4 ranks · since \d\d:\d\d:\d\d$")
        self.assertEqual(self.text("#version"), "gradwire-coordinator 1.2.3")
        self.assertEqual(browser.find(self.driver, "#settings").get_attribute("title"),
                         "\n".join(f"{name} = {value}" for name, value in fake.SETTINGS.items()))
        self.open(fake.status(step=17, ranks=1))
        self.assertRegex(self.text("#view"), r"^view 1 · 1 rank · since ")

    def test_run_whose_length_is_not_known_has_no_share_and_no_end(self):
        self.open(fake.status(step=17, total_steps=0))
        self.assertEqual(self.text("#progress-text"), "Step 17 · 7 s so far")
        self.assertEqual(self.driver.title, "running · Gradwire")
        track = browser.find(self.driver, "#track")
        self.assertIsNone(track.get_attribute("aria-valuenow"))

    def test_numbers_have_fitting_units(self):
        self.open(fake.status(step=17))
        hour, day = 3600, 86400
        for function, texts in {
                "duration": {59.4: "59 s", 59.6: "1 min 00 s", 125: "2 min 05 s",
                             hour - 0.4: "1 h 00 min", 3 * hour + 750: "3 h 12 min",
                             day - 0.4: "1 d 00 h", 2 * day + 5 * hour - 1: "2 d 04 h", -5: "0 s"},
                "seconds": {0: "0 ms", 0.00032: "320 µs", 0.0009994: "999 µs", 0.0009996: "1 ms",
                            0.0512: "51.2 ms", 0.9994: "999 ms", 0.9996: "1 s", 1.234: "1.23 s",
                            119: "119 s", 120: "2 min 00 s", 150: "2 min 30 s"},
                "percent": {0.0123: "1.2 %", 0.0994: "9.9 %", 0.0996: "10 %", 0.129: "13 %",
                            -0.0512: "-5.1 %"},
                "count": {1234567.4: "1,234,567", None: "–"},
                "amount": {0: "0", 0.2141: "0.214", 2.5: "2.5", 99.94: "99.9", 99.96: "100",
                           1234.4: "1,234"},
                "loss": {0: "0", 0.000123: "1.23e-4", -0.000123: "-1.23e-4", 0.001: "0.001",
                         2.34567: "2.346", 12345: "12350", 123456: "1.23e+5"},
                "clock": {fake.NOON: clock(fake.NOON), None: "–"},
                "rate": {999.4: "999 B/s", 999.6: "1 kB/s", 1.5e9: "1.5 GB/s",
                         1234567890: "1.23 GB/s"}}.items():
            shown = self.driver.execute_async_script("""
                const [name, values, done] = arguments;
                import('/assets/format.js').then(
                  (format) => done(values.map((value) => format[name](value))));""",
                function, list(texts))
            self.assertEqual(shown, list(texts.values()), function)

    def test_running_run_that_has_lost_ranks_names_them(self):
        status = fake.status(step=30)
        for number in (1, 2):
            status["ranks"][number].update(state="lost", heard_seconds=None)
        self.open(status)
        self.assertEqual(self.text("#notice"), "Ranks 1, 2 lost.")

    def test_another_run_at_the_same_address_starts_afresh(self):
        coordinator = self.open(fake.status(step=40))
        self.driver.find_element(By.ID, "time-chart").send_keys(Keys.END, "+")
        next_run = copy.deepcopy(fake.status(step=3, run="0123456789abcdef"))
        coordinator.history = lambda points: fake.history(3, points)
        coordinator.status = next_run
        self.wait(lambda: self.text("#run") == "0123456789abcdef", "the next run")
        self.assertFalse(self.driver.find_element(By.ID, "whole").is_displayed())

    def test_run_that_is_resumed_at_the_same_address_shows_its_own_steps(self):
        coordinator = self.open(fake.status(step=40))
        chart = self.driver.find_element(By.ID, "time-chart")
        self.wait(lambda: chart.get_attribute("aria-valuemax") == "39", "the chart")
        chart.send_keys(Keys.HOME, "+")
        self.assertTrue(self.driver.find_element(By.ID, "whole").is_displayed())
        coordinator.history = lambda _: {"points": [fake.point(step) for step in range(40, 43)]}
        coordinator.status = fake.status(step=43, epoch=2)
        self.wait(lambda: chart.get_attribute("aria-valuemax") == "42", "the resumed run")
        self.assertFalse(self.driver.find_element(By.ID, "whole").is_displayed())

    def test_another_run_without_steps_shows_no_numbers_of_the_one_before(self):
        coordinator = self.open(fake.status(step=40))
        self.wait(lambda: self.text("#loss-value") and self.canvas_colors("loss-chart"),
                  "the numbers and the chart")
        coordinator.history = lambda points: fake.history(0, points)
        coordinator.status = fake.status(step=0, run="0123456789abcdef")
        self.wait(lambda: not self.text("#loss-value"), "the next run")
        self.assertEqual(self.texts("#legend tbody tr"), [])
        self.assertEqual(self.text("#legend-caption"), "Mean of the last steps")
        self.assertEqual([self.text(f"#{name}") for name in ("exposed-value", "link-value")],
                         ["", ""])
        self.assertEqual(self.canvas_colors("loss-chart"), {})
        browser.show(self.driver, width=900)  # a chart that is left would draw itself again
        self.wait(lambda: self.driver.execute_script("return innerWidth") == 900, "the new width")
        self.assertEqual(browser.errors(self.driver), [])

    def test_checkpoint_that_failed_is_a_warning(self):
        status = fake.status(step=40)
        status["events"].append({"time": time.time(), "step": 20, "kind": "checkpoint failed",
                                 "text": "no checkpoint before step 20: the disk is full"})
        self.open(status)
        pill = self.driver.find_element(By.CSS_SELECTOR, "#events .pill")
        self.assertEqual(pill.get_attribute("data-tone"), "warn")


if __name__ == "__main__":
    unittest.main()
