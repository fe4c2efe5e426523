"""cli/experiment/course_answers.py: the sentences of the report, from made-up runs."""
import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from course_test import ACTIVITY, results_of, setting_of, trained
from cli.experiment import course_answers, course_parts
from cli.experiment.course_setups import DDP, REDUCE
from cli.experiment.study import EndedRuns


class Answers(unittest.TestCase):
    def answers(self, data_dir="", more=None, **changed):
        more = dict(more or {"hosts": "h"})
        disturbed = more.pop("disturbed", "")
        setting = dataclasses.replace(setting_of(data_dir=data_dir, **more), disturbed=disturbed)
        table = course_answers.answers(setting, results_of(data_dir, **changed))
        self.note = table.note
        return {row["question"]: row["answer"] for row in table.rows}

    def test_coordinators_parts_are_a_sentence(self):
        question = "What does the coordinator do in an iteration?"
        self.assertEqual(
            self.answers(gather_scatter=trained(coordinator=ACTIVITY))[question],
            "In 1.0000 s it waits 0.2500 s, receives 0.5000 s, folds 0.2000 s and sends 0.0500 s; "
            "most of the time it receives. It waits while the ranks compute and no gradient arrives. "
            "It receives 400 bytes, the gradients of 4 ranks over its one link. It folds: it adds the 4 "
            "gradients and divides by 4. It sends 400 bytes, the mean to 4 ranks; part of this "
            "(0.1000 s) runs beside the others.")
        self.assertNotIn(question, self.answers())

    def test_coordinator_of_a_ring_has_its_sentence(self):
        for setup, name in ((REDUCE, "all_reduce"), (DDP, "ddp")):
            answer = self.answers(**{name: trained(sent=55)})[
                f"What does the coordinator do in an iteration ({setup.title})?"]
            self.assertIn("It receives 0, folds 0 and sends 0 bytes of gradients: each rank sends up to "
                          "55 bytes", answer)

    def test_small_programs_have_their_answer(self):
        answer = self.answers()["What do the small programs do?"]
        self.assertIn("rank 0 sends 0 1 2 3 and rank 3 gets 0 1 2 3.", answer)
        self.assertIn("rank 0 gets 15 16 17 18, the mean of all 4, as does each other rank", answer)

    def test_small_program_that_gives_another_rank_another_mean_is_said(self):
        for rank, said in ((None, "as does each other rank"), (2, "but another rank does not")):
            results = results_of()
            if rank is not None:
                results["all-reduce-ring"].outputs[rank] = [0] * 4
            ((_, _, answer),) = course_parts.small_answer(results)
            self.assertIn(f"the mean of all 4, {said}.", answer)

    def test_rank_that_sends_most_is_said(self):
        run = trained(sent=55)
        run.ranks = [dataclasses.replace(rank, records=[
            {**record, "bytes_sent": sent} for record in rank.records])
            for rank, sent in zip(run.ranks, (10, 77, 30, 20))]
        answer = self.answers(ddp=run)["What does the coordinator do in an iteration (DDP)?"]
        self.assertIn("each rank sends up to 77 bytes", answer)

    def test_parameters_are_compared(self):
        question = "Do the parts end with the same parameters?"
        self.assertIn("They are equal: all 12 ranks", self.answers()[question])
        self.assertIn("They are not equal: the 12 ranks of the three parts have 2 hashes",
                      self.answers(all_reduce=trained(sha256="b"))[question])

    def test_answers_follow_the_verdicts(self):
        losses = "Are the losses close to those of one node?"
        self.assertIn("They are close: at most 0.00", self.answers(data_dir="d")[losses])
        far = trained(losses=[3.0] * 196, test={"accuracy": 0.25})
        answers = self.answers(data_dir="d", ddp=far)
        self.assertIn("They are not close: at most 1.00", answers[losses])
        accuracies = answers["Are the test accuracies similar, and why?"]
        self.assertIn("They are not similar here: they lie 7.00 points apart, more than 3 (", accuracies)
        self.assertIn("), although each method averages", accuracies)

    def test_time_that_cannot_be_judged_is_said(self):
        for more in ({"hosts": ""}, {"hosts": "h", "disturbed": "others"}):
            answers = self.answers(more=more)
            for question in ("What does DDP gain?", "What do buckets gain?",
                             "Is the workload compute-bound or network-bound?",
                             "Why does the time fall, or not fall, with nodes (DDP)?"):
                self.assertTrue(answers[question].startswith("Not measurable here: "), question)

    def test_gains_are_those_of_the_run(self):
        for seconds, said in ((0.5, "50.0 % less"), (1.5, "50.0 % more")):
            of_reduce = trained(seconds=seconds, sent=40)
            answers = self.answers(all_reduce=of_reduce, all_reduce_by_parameter=of_reduce,
                                   gather_scatter_by_parameter=trained(sent=50))
            self.assertEqual(
                answers["What does all-reduce gain?"],
                f"It takes {seconds:.4f} s instead of 1.0000 s, {said}; the busiest process sends "
                "and receives 0.00 MB an iteration instead of 0.00 MB, and a rank waits 0.1000 s "
                "instead of 0.1000 s for communication.")
            answers = self.answers(all_reduce=of_reduce)
            self.assertIn(f"All-reduce in buckets takes {seconds:.4f} s instead of 1.0000 s, {said}",
                          answers["What do buckets gain?"])
        self.assertIn("0.3000 s instead of 0.1000 s of communication run beside computation",
                      self.answers(ddp=trained(exposed=0.3))["What does DDP gain?"])
        self.assertIn("1.0000 s instead of 2.0000 s, 50.0 % less, because each node computes for "
                      "0.5000 s instead of 0.5000 s and then waits 0.1000 s",
                      self.answers(one_node=trained(1, 2.0))["What does gather and scatter gain, "
                                                            "compared with one node?"])

    def test_first_losses_that_differ_are_no_reason(self):
        question = "Why is the first loss of each rank the same?"
        self.assertIn("It is 2.0000 on rank 0 in all three parts", self.answers()[question])
        other = self.answers(ddp=trained(losses=[2.5] + [2.0] * 195))[question]
        self.assertIn("It is not the same (rank 0: gather and scatter 2.0000, all-reduce 2.0000, DDP "
                      "2.5000)", other)

    def test_gains_of_the_sheets_parts_are_of_its_exchange_by_parameter(self):
        answers = self.answers(gather_scatter_by_parameter=trained(seconds=3.0, sent=5_000_000),
                               all_reduce_by_parameter=trained(seconds=2.0, sent=1_000_000))
        self.assertIn("It takes 3.0000 s instead of 1.0000 s",
                      answers["What does gather and scatter gain, compared with one node?"])
        self.assertIn("It takes 2.0000 s instead of 3.0000 s, 33.3 % less; the busiest process sends and "
                      "receives 2.00 MB an iteration instead of 40.00 MB",
                      answers["What does all-reduce gain?"])

    def test_note_says_that_times_were_disturbed(self):
        self.answers(more={"hosts": "h", "disturbed": "others computed"})
        self.assertEqual(self.note, "Sentences on time: others computed.")

    def test_workload_is_bound_by_what_takes_longer(self):
        self.assertRegex(
            self.answers(all_reduce=trained(exposed=0.7))["Is the workload compute-bound or "
                                                         "network-bound?"],
            r"^Gather and scatter computes longer \(0.5000 s .* 0.1000 s .*, all-reduce communicates "
            r"longer \(0.5000 s .* 0.7000 s .*, and DDP computes longer.* So it is compute-bound with "
            r"gather and scatter and DDP, and network-bound with all-reduce\.$")

    def test_time_by_nodes_is_explained_for_each_set_up(self):
        times = {f"ddp_{nodes}_nodes": trained(nodes, seconds) for nodes, seconds in
                 ((2, 1.0), (3, 1.5), (4, 0.5))}
        answers = self.answers(all_reduce_3_nodes=trained(3, 0.75),
                               all_reduce_4_nodes=trained(4, 0.5), **times)
        question = "Why does the time fall, or not fall, with nodes ({})?"
        self.assertIn("It falls with each node more (2 nodes 1.0000 s, 3 nodes 0.7500 s, 4 nodes "
                      "0.5000 s). From 2 to 4 nodes a rank computes for",
                      answers[question.format("all-reduce")])
        self.assertIn("It does not fall with each node more", answers[question.format("DDP")])
        self.assertIn(question.format("gather and scatter"), answers)

    def test_accuracies_name_what_was_trained(self):
        question = "Are the test accuracies similar, and why?"
        self.assertIn("They are similar: they lie 0.00 points apart (one node 18.00 %,",
                      self.answers(data_dir="d")[question])
        self.assertIn("They are similar (an MLP on Fashion-MNIST in place of VGG-11 on CIFAR-10): they "
                      "lie", self.answers()[question])

    def test_answers_on_learning_wait_for_the_runs_that_decide_them(self):
        questions = {"Are the losses close to those of one node?",
                     "Are the test accuracies similar, and why?"}
        results = results_of()
        self.assertLessEqual(questions, {*self.answers()})
        missing = [name for name in results if name.startswith("trial-")]
        ended = EndedRuns({name: run for name, run in results.items() if name not in missing}, missing)
        asked = {row["question"] for row in course_answers.answers(setting_of(hosts="h"), ended).rows}
        self.assertEqual(questions & asked, set())
        self.assertIn("What does DDP gain?", asked)

    def test_note_says_what_the_times_are_of(self):
        for more, said in (({"hosts": ""}, "All ranks shared the cores of this machine"),
                           ({"hosts": "auto", "workers": 4}, "computation emulated"),
                           ({"hosts": "h"}, "")):
            self.answers(more=more)
            self.assertIn(said, self.note)
            self.assertEqual(not said, not self.note)


if __name__ == "__main__":
    unittest.main()
