"""cli/status/status_text.py: what it says of a coordinator's answer."""
import pathlib
import sys
import time
import unittest

SOURCES = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(SOURCES), str(SOURCES / "tests" / "support")]
from cli.runs import json_fields
from cli.status import status_text
from sample import body_of, running


def text_of(status):
    return "".join(f"{line}\n" for line in status_text.lines_of(status))


class Parse(unittest.TestCase):
    def error_of(self, body):
        with self.assertRaises(status_text.NotACoordinator) as raised:
            status_text.parse(body)
        return str(raised.exception)

    def test_coordinators_answer_is_taken(self):
        self.assertEqual(status_text.parse(body_of(running())), running())

    def test_what_is_no_json_is_named(self):
        for body in (b"<html>", b"\xff", body_of(running())[:50], b"[" * 100000, b"NaN"):
            self.assertEqual(self.error_of(body), "its answer is no JSON", body[:20])

    def test_other_program_is_named(self):
        for body in (b'{"program": "prometheus"}', b"[1, 2]"):
            self.assertEqual(self.error_of(body), "its answer is not a coordinator's")

    def test_missing_ranks_are_named(self):
        self.assertEqual(self.error_of(body_of(running(ranks=3))),
                         "its answer lacks state or ranks")

    def test_missing_state_is_named(self):
        self.assertEqual(self.error_of(body_of(running(state=""))),
                         "its answer lacks state or ranks")


class Lines(unittest.TestCase):
    def test_running_run_has_its_head(self):
        self.assertIn("run 0123456789ab: running, 2 of 2 ranks, view 1\n"
                      "model vgg11, dataset cifar10, sync ddp, backend sharded\n"
                      "step 17 of 20, 400.0 ms an iteration, 40.0 images/s, loss 2.0000, 1s left\n"
                      "exposed communication: 25 % of the last iteration\n"
                      "slowest: rank 1, 350.0 ms of own work an iteration; the others 250.0 ms\n",
                      text_of(running()))

    def test_speed_and_time_left_are_of_the_mean_iteration_and_of_all_ranks(self):
        status = running(total_steps=117)
        status["ranks"][1].update(iteration_seconds=0.2, samples=4)
        self.assertIn("step 17 of 117, 300.0 ms an iteration, 40.0 images/s, loss 2.0000, 30s left\n"
                      "exposed communication: 33 % of the last iteration\n", text_of(status))

    def test_less_than_one_image_a_second_has_two_digits(self):
        status = running()
        for rank in status["ranks"]:
            rank.update(iteration_seconds=100.0, samples=2)
        self.assertIn(" 0.04 images/s,", text_of(status))

    def test_all_settings_that_decide_the_speed_are_shown(self):
        settings = {name: f"x{place}" for place, name in enumerate((
            "model", "dataset", "sync", "backend", "wire", "batch-size", "bucket-cap-mb"))}
        self.assertIn(f"\n{', '.join(f'{name} {value}' for name, value in settings.items())}\n",
                      text_of(running(settings={**settings, "lr": "1"})))

    def test_checkpoint_has_its_step_age_size_and_duration(self):
        kept = {"step": 16, "age_seconds": 125.4, "bytes": 73_500_000, "seconds": 0.25}
        self.assertIn("\nlast checkpoint: before step 16, 2m5s ago, 73.5 MB, written in 0.25 s\n",
                      text_of(running(checkpoint=kept)))
        for checkpoint in (None, {"step": None, "age_seconds": 1}, {"step": 3}):
            self.assertNotIn("checkpoint", text_of(running(checkpoint=checkpoint)))

    def test_ledger_that_is_not_on_the_disk_any_more_says_why(self):
        self.assertIn("\nsteps are not recorded any more: no space left on device\n",
                      text_of(running(not_durable="no space left on device")))
        self.assertNotIn("recorded", text_of(running(not_durable="")))

    def test_ranks_are_a_table_in_milliseconds(self):
        self.assertIn(
            "\n\n    rank    state   steps  iteration ms    data  forward  backward  communication  "
            "exposed  optimizer  own work  peak MB    loss  heard s ago          address  process\n"
            "       0  running      18         400.0     5.0     95.0     100.0          200.0  "
            "  150.0       50.0     250.0      412  1.5000          0.1  10.10.1.1:29401     4711\n",
            text_of(running()))

    def test_worker_that_does_not_tell_its_process_has_a_dash(self):
        status = running()
        status["ranks"][0]["pid"] = None
        self.assertIn("  10.10.1.1:29401        -\n", text_of(status))

    def test_slowest_rank_whose_worker_carries_others_is_said_to(self):
        status = running()
        status["ranks"].append({**status["ranks"][1], "rank": 2})
        self.assertIn("slowest: rank 1 (its worker carries rank 2 too), 350.0 ms of own work an "
                      "iteration; the others 250.0 ms\n", text_of(status))

    def test_own_work_of_the_others_is_their_mean(self):
        status = running(slowest_rank=0)
        for rank, seconds in zip(status["ranks"], (0.35, 0.05)):
            rank["work_seconds"] = seconds
        status["ranks"].append({**status["ranks"][1], "rank": 2, "work_seconds": 0.25,
                                "address": "10.10.1.3:29401"})
        self.assertIn("slowest: rank 0, 350.0 ms of own work an iteration; the others 150.0 ms\n",
                      text_of(status))

    def test_rank_whose_own_work_is_not_known_is_not_among_the_others(self):
        status = running()
        status["ranks"].append({"rank": 2, "state": "running", "address": "10.10.1.3:29401"})
        self.assertIn("slowest: rank 1, 350.0 ms of own work an iteration; the others 250.0 ms\n",
                      text_of(status))
        status["ranks"][1]["work_seconds"] = None
        self.assertIn("slowest: rank 1\n", text_of(status))

    def test_workers_without_an_address_are_not_taken_for_one(self):
        status = running()
        for rank in status["ranks"]:
            rank["address"] = ""
        self.assertNotIn("carries", text_of(status))

    def test_coordinator_through_which_gradients_go_says_what_it_does(self):
        times = {"wait": 0.1, "receive": 0.2, "fold": 0.0304, "send": 0.05, "hidden_send": 0.01}
        status = running(coordinator={"iterations": 9, "iteration_seconds": {"mean": 0.3804},
                                      "phase_seconds": times})
        self.assertIn("\ncoordinator: 380.4 ms an iteration on average: waits 100.0, receives 200.0, "
                      "folds 30.4, sends 50.0\n", text_of(status))

    def test_coordinator_that_averages_nothing_is_not_mentioned(self):
        for coordinator in (None, {}, {"iteration_seconds": {"mean": 1}}, 7):
            self.assertNotIn("coordinator", text_of(running(coordinator=coordinator)))

    def test_ranks_of_a_served_model_say_how_far_they_are_apart(self):
        status = running()
        status["ranks"][0].update(lag=2, spread=3)
        head, first = text_of(status).splitlines()[6:8]
        self.assertEqual(head.split()[2:5], ["steps", "lag", "spread"])
        self.assertEqual(first.split()[2:5], ["18", "2", "3"])

    def test_compressed_gradients_say_what_it_does(self):
        status = running()
        status["ranks"][0].update(compression_ratio=3.98, residual_norm=0.456)
        head, first = text_of(status).splitlines()[6:8]
        self.assertEqual(head.split()[3:5], ["ratio", "residual"])
        self.assertEqual(first.split()[3:5], ["4.0", "0.46"])

    def test_phase_that_only_the_coordinator_knows_has_its_column(self):
        status = running(phases=[{"name": "a~/b", "title": "tomorrow's"}])
        status["ranks"][0]["phase_seconds"]["a~/b"] = 0.125
        self.assertIn("iteration ms  tomorrow's  own work", text_of(status))
        self.assertIn("400.0       125.0     250.0", text_of(status))

    def test_unknown_values_are_dashes(self):
        status = running(ranks=[{"rank": 0, "state": "lost", "loss": None}])
        self.assertIn("\n       0    lost       -             -", text_of(status))

    def test_rank_that_is_no_object_is_shown_as_unknown(self):
        status = {"state": "running", "ranks": [3, {"phase_seconds": {}}], "events": [1],
                  "phases": [2, {"name": []}]}
        self.assertIn("running, 2 of 0 ranks\n", text_of(status))
        self.assertIn("running, 2 of 0 ranks\n", text_of({**status, "phases": 7}))

    def loss(self, **changes):
        return {"time": 1795000000.1, "step": 7, "ranks": [1], "cause": "its session stream broke",
                "address": "10.10.1.2:29401", "pid": 4712, "seconds_lost": 0.4125,
                "seconds_lost_by_phase": {"computing": 0.3, "waiting": 0.1, "connecting": 0.0125},
                "generation": 2, "first_step": 7, "carriers": [
                    {"address": "10.10.1.1:29401", "ranks": [0, 1], "adopted": [1]}], **changes}

    def test_losses_say_who_was_lost_who_carries_on_and_what_they_cost(self):
        failures = {"views": 2, "losses": 1, "recomputed_ranks": 1, "seconds_lost": 0.4125}
        self.assertIn("\n\nlost: 1 worker, 0.412 s lost in all\n"
                      "  rank 1 (10.10.1.2:29401, process 4712) in step 7: its session stream broke; "
                      "then rank 1 on the worker of ranks 0, 1 (10.10.1.1:29401); 0.412 s lost "
                      "(computing 0.300, waiting 0.100, connecting 0.013)\n",
                      text_of(running(failures={**failures, "last": [self.loss()]})))

    def test_each_carrier_of_a_lost_worker_is_named_with_what_it_took_over(self):
        carriers = [{"address": f"10.10.1.{place}:29401", "ranks": [rank, lost], "adopted": [lost]}
                    for place, rank, lost in ((1, 0, 2), (3, 1, 3))]
        text = text_of(running(failures={"losses": 1, "last": [self.loss(ranks=[2, 3],
                                                                         carriers=carriers)]}))
        self.assertIn("; then rank 2 on the worker of ranks 0, 2 (10.10.1.1:29401); rank 3 on the "
                      "worker of ranks 1, 3 (10.10.1.3:29401); 0.412 s lost", text)

    def test_loss_of_which_no_worker_told_the_cost_says_so(self):
        unknown = self.loss(seconds_lost=None, seconds_lost_by_phase=None)
        text = text_of(running(failures={"losses": 2, "last": [unknown, dict(unknown)]}))
        self.assertRegex(text, r"its cost counts with the next loss\n.*its cost is not known yet\n")

    def test_loss_before_one_that_ended_the_run_has_no_cost_that_could_still_come(self):
        unknown = self.loss(seconds_lost=None, seconds_lost_by_phase=None)
        last = {**unknown, "carriers": [], "generation": None}
        text = text_of(running(state="aborted", failures={"losses": 2, "last": [unknown, last]}))
        self.assertRegex(text, r"its cost is not known\n.*its session stream broke\n")
        self.assertNotIn("counts with", text)

    def test_each_loss_has_its_own_cost_where_it_is_known(self):
        losses = [self.loss(seconds_lost=cost, seconds_lost_by_phase=None) for cost in (0.25, 1.5)]
        text = text_of(running(failures={"losses": 2, "last": losses}))
        self.assertRegex(text, r"; 0\.250 s lost\n.*; 1\.500 s lost\n")

    def test_loss_that_nobody_carries_on_has_no_cost(self):
        loss = {"step": 7, "ranks": [0, 1], "cause": "it left", "seconds_lost": None, "carriers": []}
        self.assertIn("\nlost: 2 workers, 0.000 s lost in all\n  ranks 0, 1 in step 7: it left\n",
                      text_of(running(failures={"losses": 2, "last": [loss]})))

    def test_of_many_losses_the_last_are_shown_and_all_counted(self):
        losses = [self.loss(step=step) for step in range(100, 112)]
        text = text_of(running(failures={"losses": 12, "seconds_lost": 5, "last": losses}))
        self.assertIn("\nlost: 12 workers, 5.000 s lost in all\n", text)
        self.assertNotIn("in step 101:", text)
        for step in (102, 111):
            self.assertIn(f"in step {step}:", text)

    def test_no_loss_is_not_mentioned(self):
        for failures in ({"losses": 0, "last": []}, {}, None, 3):
            self.assertNotIn("\nlost:", text_of(running(failures=failures)))

    def test_fault_is_among_the_events(self):
        self.assertRegex(text_of(running()),
                         r"\n\nevents\n  \d\d:\d\d:\d\d  step 12     lost      rank 3 was lost in "
                         r"step 12: it was silent for 10 s\n")

    def test_many_events_are_the_last_ten(self):
        events = [{"time": 0, "step": step, "kind": "k", "text": "t"} for step in range(12)]
        text = text_of(running(events=events))
        self.assertNotIn("step 1 ", text)
        self.assertIn("step 2 ", text)

    def test_before_the_first_worker_it_says_what_it_waits_for(self):
        status = {"run": "ab", "state": "waiting", "reason": "0 of 2 workers are here",
                  "world_size": 2, "generation": 0, "settings": {}, "step": 0, "total_steps": 0,
                  "slowest_rank": None, "ranks": [], "events": []}
        self.assertEqual(text_of(status), "run ab: waiting (0 of 2 workers are here), 0 of 2 "
                                          "ranks, view 0\nno step done yet\n")

    def test_time_left_is_in_hours_minutes_and_seconds(self):
        for steps, left in ((3600 * 26 + 61, "26h1m1s"), (3600, "1h"), (0.5, "0")):
            status = running(step=1, total_steps=1 + steps)
            for rank in status["ranks"]:
                rank["iteration_seconds"] = 1
            self.assertIn(f", {left} left\n", text_of(status))

    def test_run_that_has_ended_or_done_its_steps_has_no_time_left(self):
        self.assertNotIn("left", text_of(running(state="aborted")))
        self.assertNotIn("left", text_of(running(step=20)))

    def test_before_the_second_iteration_there_is_no_speed(self):
        status = running()
        for rank in status["ranks"]:
            rank["iteration_seconds"] = 0
        self.assertIn("step 17 of 20, loss 2.0000, 0 left\nslowest", text_of(status))

    def test_ranks_that_differ_by_chance_have_no_slowest(self):
        self.assertIn("slowest: none; the ranks' own work differs by chance only\n",
                      text_of(running(slowest_rank=None)))

    def test_rank_alone_has_no_slowest(self):
        status = running(slowest_rank=None)
        del status["ranks"][0]
        self.assertNotIn("slowest", text_of(status))

    def test_event_has_its_time_of_day(self):
        for seconds in (1795000000.9, 1795003661):
            event = {"time": seconds, "step": 3, "kind": "k", "text": "t"}
            self.assertIn(f"\n  {time.strftime('%H:%M:%S', time.localtime(seconds))}  step 3 ",
                          text_of(running(events=[event])))

    def test_before_the_first_step_nothing_is_said_of_the_slowest(self):
        status = running(slowest_rank=None)
        for rank in status["ranks"]:
            rank.update(steps_done=0, work_seconds=0)
        self.assertNotIn("slowest", text_of(status))

    def test_resumed_run_before_its_first_step_says_nothing_of_the_slowest(self):
        status = running(slowest_rank=None)
        for rank in status["ranks"]:
            rank["work_seconds"] = 0
        self.assertNotIn("slowest", text_of(status))

    def test_ranks_of_one_worker_are_not_compared(self):
        status = running(slowest_rank=None)
        status["ranks"][0]["address"] = status["ranks"][1]["address"]
        self.assertNotIn("slowest", text_of(status))

    def test_slowest_rank_that_is_alone_is_compared_with_none(self):
        status = running()
        del status["ranks"][0]
        self.assertIn("slowest: rank 1\n", text_of(status))

    def test_numbers_that_no_run_has_are_no_error(self):
        status = running(step=1, total_steps=1e308, events=[{"time": 1e300}, {"time": -1e300}])
        status["ranks"][0].update(iteration_seconds=1e308, rank=10**400)
        self.assertIn("events", text_of(status))

    def test_numbers_that_a_coordinator_does_not_send_are_no_error(self):
        status = running(total_steps=None, checkpoint={"step": 3, "age_seconds": 1}, events=7,
                         failures={"last": [self.loss()]})
        status["coordinator"] = {"phase_seconds": dict.fromkeys(("wait", "receive", "fold", "send"), 1)}
        text = text_of(status)
        self.assertIn("\nstep 17, ", text)
        self.assertIn("lost: 1 worker, 0.000 s lost in all\n", text)
        self.assertNotIn("coordinator:", text)
        self.assertNotIn("events", text)
        status["checkpoint"].update(bytes=None, seconds=None)
        self.assertIn("last checkpoint: before step 3, 1s ago, 0.0 MB, written in 0.00 s\n",
                      text_of(status))
        status["ranks"].append({"address": status["ranks"][1]["address"]})  # a rank without a number
        self.assertIn("slowest: rank 1, ", text_of(status))

    def test_workers_without_an_address_are_compared(self):
        status = running(slowest_rank=None)
        for rank in status["ranks"]:
            rank["address"] = ""
        self.assertIn("slowest: none; ", text_of(status))

    def test_first_step_of_a_run_of_one_is_shown(self):
        self.assertEqual(status_text.progress_text({"step": 1, "total_steps": 1}), "step 1 of 1")

    def test_control_characters_are_shown_and_not_obeyed(self):
        status = running(reason="a\x1b[2J\nb\x9bc\x7f", run="\r")
        status["ranks"][0]["address"] = "\x07"
        status["events"][0]["text"] = "\x1b]0;t"
        status["phases"] = [{"name": "data", "title": "\x08"}]
        status["settings"]["model"] = "\x0e"
        text = text_of(status)
        self.assertIn(r"(a\x1b[2J\x0ab\x9bc\x7f)", text)
        self.assertFalse(json_fields.CONTROL.search(text.replace("\n", "")), repr(text))


class Parts(unittest.TestCase):
    def test_finished_and_aborted_have_ended(self):
        states = ("finished", "aborted", "running", "waiting")
        self.assertEqual([status_text.has_ended({"state": state}) for state in states],
                         [True, True, False, False])

    def test_total_that_is_not_known_is_left_out(self):
        self.assertEqual(status_text.progress_text({"step": 3, "total_steps": 0}), "step 3")

    def test_too_many_lines_are_cut_and_counted(self):
        self.assertEqual(status_text.fitted(["one", "two", "three", "four"], 80, 3),
                         ["one", "two", "... 2 more lines"])
        self.assertEqual(status_text.fitted(["one", "two"], 80, 0), ["... 2 more lines"])

    def test_wide_line_is_cut_between_characters(self):
        self.assertEqual(status_text.fitted(["aübc"], 2, 5), ["aü"])

    def test_what_fits_is_kept(self):
        self.assertEqual(status_text.fitted(["a", "b"], 1, 2), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
