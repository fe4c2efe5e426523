"""cli/experiment/: what is planned, kept, repeated, refused and written."""
import contextlib
import io
import json
import math
import pathlib
import shutil
import sys
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fakes import (RUNS, SMALL, TABLES, TRAITS, Conducted, FakeRunner, conduct_with, no_images,
                   option, request_of)
from cli.experiment import conduct as conducting, experiment, writing
from cli.experiment.conduct import Pace, Step, announce, conduct, duration, results_of_step
from cli.experiment.data_folder import check_data_folder
from cli.experiment.experiment import EXPERIMENTS, with_hosts
from cli.experiment.folder import fingerprint
from cli.experiment.study import (NOT_CONFIRMED, NOT_MEASURABLE, Findings, Setting, Table, bars, counted,
                                  experiment_called, judge)
from cli.experiment.work import Training
from cli.report import figures
from cli.runs import training
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.runner import Outputs, Run
from cli.runs.tables import Column, csv_table, markdown_cell
from cli.terminal.command import WrongUsage


class Words(unittest.TestCase):
    def test_only_one_is_singular(self):
        self.assertEqual([counted(number, "hash", "hashes") for number in (0, 1, 2)],
                         ["0 hashes", "1 hash", "2 hashes"])
        self.assertEqual(counted(1000, "group"), "1,000 groups")


class Threads(unittest.TestCase):
    def test_ranks_of_one_machine_divide_its_cores_and_those_of_hosts_do_not(self):
        for more, ranks, threads in (({}, 4, 2), ({}, 1, 8), ({}, 16, 1), ({"threads": 3}, 4, 3),
                                     ({"hosts": "/x"}, 4, 0), ({"hostfile": "h", "threads": 5}, 4, 5),
                                     ({"hosts": "auto", "workers": 4}, 1, 2)):
            setting = Setting(request_of("out", **more), {}, 8, 1 << 30)
            self.assertEqual(setting.threads(ranks), threads, more)


class DataSets(unittest.TestCase):
    def test_cifar10_is_there_with_its_folder_unless_another_set_was_chosen(self):
        for folder, chosen, there in (("", {}, False), ("/d", {}, True), ("/d", {"lr": "1"}, True),
                                      ("/d", {"dataset": "cifar10"}, True),
                                      ("", {"dataset": "cifar10"}, False),
                                      ("/d", {"dataset": "mnist"}, False)):
            request = request_of("out", data_dir=folder, chosen=chosen)
            self.assertEqual(Setting(request, {}, 8, 1 << 30).has_cifar10, there, (folder, chosen))


class Reports(unittest.TestCase):
    def test_every_form_of_a_report_has_all_parts(self):
        setting = {"cores": "2"}
        findings = Findings(
            [judge("A claim.", "Fig. 1", True, "1 s")],
            [Table("t", "Times", "Tab. 2", [Column("a", "column a")], [{"a": "cell"}], "A note."),
             bars("f", "A figure", "Fig. 3", "x", ["c"], {"s": [1]}, "A caption.")],
            ["A last note."], ("A head.",))
        missing = [Step(mock.Mock(**{"name": None}), Run([["/x/run"]], coordinator=False), "", 1)]
        missing[0].work.name, missing[0].work.title = "late", "a late run"
        paper = mock.Mock(**{"done.return_value": b""})
        with mock.patch.object(writing, "Paper", return_value=paper), \
                mock.patch.object(figures, "render", no_images):
            files = writing.Writing(EXPERIMENTS[0], "tiny", "gradwire experiment course", setting,
                                    findings, missing, missing, "rank 0\n  broke").files()
        # What is given to the paper in an iterator is read here.
        on_paper = " ".join(str([list(one) if hasattr(one, "__next__") else one for one in call.args])
                            for call in paper.method_calls)
        for text in ("INCOMPLETE: 1 of 1 runs have not ended: late.", "Reason: rank 0 broke", "A head.",
                     "gradwire experiment course", "For tests.", "cores: 2", "A claim.", "confirmed",
                     "Times (Tab. 2)", "column a", "cell", "A note.", "Figure 1: A figure (Fig. 3)",
                     "A caption.", "A last note."):
            for form in (files["report.md"], files["report.html"], on_paper):
                self.assertIn(text, form)
        self.assertIn("# late: a late run\n/x/run\n", files["commands.txt"])

    def test_only_the_full_scale_is_no_rehearsal(self):
        for scale, is_rehearsal in (("quick", True), ("full", False)):
            head = experiment.head_of(Setting(request_of("out", scale=scale), {}, 2, 1 << 30), "")
            self.assertEqual([sentence.split(":")[0] for sentence in head],
                             ["REHEARSAL"] if is_rehearsal else [])


class Conducting(Conducted):
    def data_folder(self, name):
        """With an empty file of that name."""
        folder = self.out.parent / "data"
        folder.mkdir()
        (folder / name).touch()
        return str(folder)

    def assert_refused(self, message, **more):
        with self.assertRaisesRegex(Failure, message) as raised:
            self.conduct(FakeRunner(), **more)
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_all_is_written(self):
        self.assertEqual(len(self.conduct(FakeRunner(), figures.render)), RUNS)
        names = {file.name for file in self.out.iterdir()}
        self.assertLessEqual({"report.html", "report.md", "report.pdf", "claims.csv", "times.csv", "nodes.png",
                              "nodes.svg", "nodes.pdf", "commands.txt"}, names)
        page = (self.out / "report.html").read_text()
        self.assertIn("data:image/svg+xml;base64,", page)
        self.assertNotRegex(page, "(src|href)=\"(?!data:)")  # it is complete in itself
        self.assertTrue((self.out / "report.pdf").read_bytes().startswith(b"%PDF-"))
        self.assertEqual(len(list((self.out / "runs").iterdir())), RUNS)

    def test_what_will_run_is_said_first(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=0))
        self.assertIn(f"{RUNS} runs\n", self.said.getvalue())
        self.assertRegex(self.said.getvalue(), "ddp-3-nodes +DDP, 3 × 2\n")

    def test_time_left_is_said_once_a_run_has_told_it(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=1))
        lines = self.said.getvalue().splitlines()
        first, = (place for place, text in enumerate(lines) if text.startswith("run 1 of"))
        self.assertEqual([text for text in lines[:first] if "about" in text], [])
        self.assertEqual(lines[first - 1], "time left not known yet")
        self.assertRegex(lines[first], "took [0-9]+ s, about [0-9]+ s left$")
        self.said.truncate(0)
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=0))
        self.assertRegex(self.said.getvalue(), "one-node .*: kept\n")
        self.assertRegex(self.said.getvalue(), "ddp-3-nodes .*: about [0-9]+ s\n")
        self.assertRegex(self.said.getvalue(), "\nabout [0-9]+ s left\n")

    def test_break_is_gone_on_from(self):
        with self.assertRaisesRegex(Failure, "^all-reduce-3-nodes: rank 0 was killed by signal 9"):
            self.conduct(FakeRunner(fail_at=9))
        self.assertEqual(len(self.conduct(FakeRunner())), RUNS - 9)
        self.assertNotIn("INCOMPLETE", (self.out / "report.html").read_text())
        self.assertNotIn("missing_runs", self.results())

    def test_nothing_is_repeated_but_with_again(self):
        self.conduct(FakeRunner())
        self.assertEqual(self.conduct(FakeRunner(fail_at=0)), [])
        self.assertEqual(len(self.conduct(FakeRunner(), again=True)), RUNS)

    def test_break_of_a_repetition_is_gone_on_from_without_again(self):
        self.conduct(FakeRunner())
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=5), again=True)
        self.assertIn("is incomplete; the same command without --again continues", self.said.getvalue())
        self.assertEqual(len(self.conduct(FakeRunner())), RUNS - 5)

    def test_break_says_that_the_same_command_continues(self):
        with self.assertRaises(Failure):
            self.conduct(FakeRunner(fail_at=5))
        self.assertIn("is incomplete; the same command continues", self.said.getvalue())

    def test_folder_of_a_command_that_was_killed_in_its_first_write_is_taken(self):
        self.out.mkdir()
        (self.out / "experiment.json.7.tmp").write_text("{")
        self.assertEqual(len(self.conduct(FakeRunner())), RUNS)

    def test_second_command_at_once_in_one_folder_is_refused(self):
        def start_another():
            self.assert_refused(f"^--out: another gradwire experiment is using '{self.out}'; wait "
                                "for its end, or name another folder$")
            raise Failure("seen")
        runner = FakeRunner()
        runner.try_out = lambda _argv: start_another()
        with self.assertRaisesRegex(Failure, "^seen$"):
            self.conduct(runner)
        self.assertEqual(len(self.conduct(FakeRunner())), RUNS)  # once the first has ended

    def test_repetition_that_is_refused_leaves_all_runs(self):
        self.conduct(FakeRunner())
        runner = FakeRunner()
        runner.try_out = mock.Mock(side_effect=Failure("no worker"))
        with self.assertRaises(Failure):
            self.conduct(runner, again=True)
        self.assertEqual(self.conduct(FakeRunner()), [])

    def test_runs_of_another_machine_are_said_and_no_time_is_judged(self):
        self.conduct(FakeRunner())
        path = next((self.out / "runs").iterdir())
        record = json.loads(path.read_text())
        record["environment"]["cpu"] = "another CPU"
        path.write_text(json.dumps(record))
        self.conduct(FakeRunner(), hosts="")
        head = self.results()["head"]
        self.assertTrue(head[0].startswith("NOT MEASURABLE: the runs were measured on 2 machines: "))
        self.assertIn("another CPU, ", head[0])

    def test_loss_that_is_not_finite_is_shown_as_such(self):
        table = Table("t", "T", "s", [Column("loss", "loss", 2)], [{"loss": math.inf}])
        self.assertEqual(markdown_cell(math.inf, table.columns[0]), "not finite")
        self.assertEqual(csv_table(table.columns, table.rows), "loss\n\n")
        self.assertIsNone(writing.json_value(math.inf))
        self.assertEqual(writing.json_value(0.5), 0.5)

    def test_model_and_data_are_tried_out_before_the_first_run(self):
        runner = FakeRunner(fail_at=0)
        folder = self.data_folder("data_batch_1.bin")
        with self.assertRaises(Failure):
            self.conduct(runner, data_dir=folder)
        self.assertEqual(runner.tried, [["/x/gradwire-layout", "--model", "vgg11", "--dataset",
                                         "cifar10", "--data-dir", folder],
                                        ["/x/gradwire-layout"]])

    def test_folder_of_another_data_set_is_refused_before_anything_is_tried(self):
        folder = self.data_folder("data_batch_1.bin")
        for name in ("data-parallel", "inference"):
            runner = FakeRunner()
            with self.assertRaises(Failure) as raised:
                conduct_with(runner, request_of(self.out / name, name, data_dir=folder), no_images)
            self.assertEqual(raised.exception.exit_code, EXIT_USAGE)
            self.assertRegex(str(raised.exception), (
                f"^--data-dir: got '{folder}', which looks like CIFAR-10 \\(data_batch_1.bin\\), "
                "expected MNIST \\(train-images-idx3-ubyte\\); fetch it with deploy/fetch-mnist "
                "DIR, or omit --data-dir to use (Debian's Fashion-MNIST|made-up images)$"))
            self.assertEqual((runner.tried, runner.runs), ([], []))

    def test_folder_without_a_data_set_says_what_it_is(self):
        folder = self.data_folder("notes")
        self.assert_refused("which holds none of its files, expected CIFAR-10", data_dir=folder)
        self.assert_refused("which is no folder, expected CIFAR-10 .* deploy/fetch-cifar10 DIR",
                            data_dir=f"{folder}/notes")

    def test_data_of_runs_that_are_kept_are_needed_no_more(self):
        folder = self.data_folder("data_batch_1.bin")
        self.assertEqual(len(self.conduct(FakeRunner(), data_dir=folder)), RUNS)
        shutil.rmtree(folder)
        (self.out / "report.html").unlink()
        self.assertEqual(self.conduct(FakeRunner(), data_dir=folder), [])
        self.assertTrue((self.out / "report.html").exists())

    def test_slow_kernels_are_said(self):
        self.conduct(FakeRunner(), blas_warning="OpenBLAS is slow")
        self.assertIn("\nwarning: OpenBLAS is slow\n", self.said.getvalue())

    def test_compressed_files_of_mnist_are_taken(self):
        folder = self.data_folder("train-images-idx3-ubyte.gz")
        runner = FakeRunner()
        with contextlib.redirect_stderr(self.said), contextlib.redirect_stdout(io.StringIO()):
            conduct_with(runner, request_of(self.out, "inference", data_dir=folder), no_images)
        self.assertTrue(runner.runs)

    def test_data_on_other_hosts_are_not_looked_for_here(self):
        file = self.out.parent / "hosts"
        file.write_text("127.0.0.1\n")
        self.assertEqual(len(self.conduct(FakeRunner(), hostfile=str(file), data_dir="/d")), RUNS)

    def test_runs_that_need_cifar10_alone_are_said_to_be_left_out(self):
        with self.assertRaisesRegex(Failure, "to do without the runs that need it$"):
            check_data_folder("/d", ["--dataset", "cifar10"], None)

    def test_option_that_the_source_fixes_is_refused(self):
        self.assert_refused("^--model: got 'lenet' for experiment course, whose source fixes it; "
                            "expected one of lab, large-batch$", chosen={"model": "lenet"})
        self.assert_refused("^--lr: .* expected one of lab, large-batch, ddp-paper, "
                            "time-to-accuracy$", words=["data-parallel"], chosen={"lr": "1"})

    def test_data_set_of_unknown_size_is_refused(self):
        self.assert_refused("^--dataset: got 'images', expected one of a known size: cifar10, ",
                            words=["lab"], chosen={"dataset": "images"})

    def test_option_that_the_source_leaves_open_reaches_the_runs_and_the_report(self):
        runs = self.conduct(FakeRunner(), words=["large-batch"],
                            chosen={"model": "mlp", "lr": "0.5", "dataset": "mnist"})
        for run in runs:
            self.assertEqual([option(run.ranks[0], name) for name in
                              ("--model", "--lr", "--dataset")], ["mlp", "0.5", "mnist"])
        report = (self.out / "report.md").read_text()
        self.assertIn("Chosen by options, because the source leaves them open: --model mlp, "
                      "--lr 0.5, --dataset mnist.", report)
        self.assertIn("lr is that of the linear rule", report)

    def test_folder_of_a_chosen_data_set_is_checked(self):
        folder = self.data_folder("notes")
        self.assert_refused("expected MNIST .train-images-idx3-ubyte.; fetch it with "
                            "deploy/fetch-mnist DIR$", words=["lab"], data_dir=folder,
                            chosen={"dataset": "mnist"})
        runs = self.conduct(FakeRunner(), words=["lab"], data_dir=folder,
                            chosen={"dataset": "fashion-mnist"})
        self.assertEqual(option(runs[1].ranks[0], "--data-dir"), folder)

    def test_data_that_are_not_there_end_it_before_the_first_run(self):
        runner = FakeRunner()
        runner.try_out = mock.Mock(side_effect=Failure("cannot read /d/data_batch_1.bin"))
        with self.assertRaisesRegex(Failure, "cannot read"):
            self.conduct(runner)
        self.assertEqual(runner.runs, [])

    def test_nothing_is_tried_out_when_nothing_is_to_be_run(self):
        self.conduct(FakeRunner())
        runner = FakeRunner()
        self.conduct(runner)
        self.assertEqual(runner.tried, [])

    def test_other_hosts_in_the_file_are_run_anew(self):
        file = self.out.parent / "hosts"
        file.write_text("127.0.0.1\n127.0.0.2\n")
        self.conduct(FakeRunner(), hostfile=str(file))
        self.assertEqual(self.conduct(FakeRunner(), hostfile=str(file)), [])
        file.write_text("127.0.0.1\n127.0.0.3\n")
        self.assertEqual(len(self.conduct(FakeRunner(), hostfile=str(file))), RUNS)

    def test_memory_ends_a_sweep_and_nothing_else(self):
        too_large = FakeRunner(fails=lambda argv: option(argv, "--batch-size") == "4" and
                               option(argv, "--devices") in ("", "1") and
                               option(argv, "--sync") in ("none", "data-parallel"))
        runs = self.conduct(too_large, words=["lab"])
        for way in ("ranks", "data-parallel"):
            self.assertIn(f"{way}-1-devices-batch-4: memory ends the sweep here: rank 0 was killed "
                          "by signal 9", self.said.getvalue())
        self.assertIn("Memory ends the sweep at 2: a batch of 4 needs about",
                      (self.out / "report.md").read_text())
        self.assertEqual(self.conduct(FakeRunner(fail_at=0), words=["lab"]), [])
        self.assertGreater(len(runs), 5)

    def test_figure_without_bars_is_left_out_if_no_network_fits_in_memory(self):
        def draw(figure):
            figures.draw(figure)
            return no_images(figure)
        with mock.patch.object(experiment, "machine", return_value={"memory": 1 << 20}):
            self.conduct(FakeRunner(), draw, words=["ddp-paper"])
        drawn = {path.stem for path in self.out.glob("*.svg")}
        self.assertIn("groups", drawn)
        self.assertNotIn("breakdown", drawn)
        self.assertNotIn("breakdown.svg", (self.out / "report.html").read_text())
        verdicts = {claim["key"]: claim["verdict"] for claim in self.results()["claims"]}
        self.assertEqual(verdicts["overlap"], "not-measurable")

    def test_memory_is_what_a_container_leaves(self):
        with mock.patch.object(experiment, "machine", return_value={"memory": 100}):
            self.assertEqual([experiment.free_memory(left) for left in (None, 30, 300)],
                             [100, 30, 100])
        with self.assertRaisesRegex(Failure, "needs about .* GB of memory; 0.0 GB are free$"):
            self.conduct(FakeRunner(), words=["data-parallel"], memory_left=1 << 20)

    def test_what_is_larger_than_what_did_not_fit_is_not_tried(self):
        runs = self.conduct(FakeRunner(fails=lambda argv: "--barrier" in argv and
                                       "--broadcast-buffers" not in argv and
                                       option(argv, "--batch-size") == "2"), words=["lab"])
        batches = [option(run.ranks[0], "--batch-size") for run in runs if len(run.ranks) == 2]
        self.assertNotIn("4", batches)

    def test_each_way_in_which_memory_ends_a_run_ends_its_sweep(self):
        for why, ends_sweep in (
                ("rank 0 ended with exit code 1:\n  std::bad_alloc", True),
                ("rank 0 ended with exit code 1:\n  can't allocate memory: 9 bytes", True),
                ("rank 0 ended with exit code 137", True),
                ("rank 0 was killed by signal 9 (Killed)", True),
                ("rank 0 was killed by signal 11 (Segmentation fault)", False)):
            runner = mock.Mock()
            runner.run.side_effect = Failure(why)
            step = mock.Mock()
            step.work.sweep, step.work.name = "batch", "batch-4"
            with self.subTest(why), contextlib.redirect_stderr(self.said):
                if ends_sweep:
                    kept = results_of_step(step, None, runner, mock.Mock())
                    self.assertEqual(kept, {"ranks": [], "coordinator": None})
                    step.work.sweep = ""
                self.assertRaisesRegex(Failure, "^batch-4: rank 0", results_of_step, step, None, runner,
                                       mock.Mock())

    def test_other_failure_of_a_sweep_ends_it_all(self):
        with self.assertRaisesRegex(Failure, "^data-parallel-1-devices-batch-2: rank 0 ended with "
                                    "exit code 1"):
            self.conduct(FakeRunner(fail_at=1, why="rank 0 ended with exit code 1"), words=["lab"])

    def test_each_part_of_a_note_is_a_paragraph(self):
        self.conduct(FakeRunner(), words=["lab"])
        page = (self.out / "report.html").read_text()
        self.assertRegex(page, "<p>Over all samples [^<]*</p>\n<p>Q4.2: ")
        self.assertNotIn("<p></p>", page)

    def test_results_are_there_for_programs(self):
        self.conduct(FakeRunner())
        results = json.loads((self.out / "results.json").read_text())
        self.assertEqual((results["experiment"], results["scale"]), ("course", "tiny"))
        self.assertEqual(results["tables"]["nodes"][0]["nodes"], 2)
        claim = results["claims"][0]
        self.assertEqual(set(claim), {"key", "claim", "verdict", "evidence"})
        self.assertLessEqual({claim["verdict"] for claim in results["claims"]},
                             {"confirmed", "not-confirmed", "not-measurable"})

    def test_other_command_is_run_anew(self):
        self.conduct(FakeRunner())
        self.assertEqual(len(self.conduct(FakeRunner(), threads=3)), RUNS - SMALL)

    def test_other_rate_is_another_run(self):
        def mark(rate, of_run=""):
            return fingerprint(Run([["/x/gradwire-worker"]], rate=of_run),
                               request_of(self.out, hosts="auto", rate=rate))
        self.assertNotEqual(mark("1gbit"), mark("100mbit"))
        self.assertNotEqual(mark("1gbit"), mark("1gbit", "100mbit"))
        self.assertEqual(mark("1gbit", "100mbit"), mark("2gbit", "100mbit"))

    def test_other_version_is_run_anew(self):
        self.conduct(FakeRunner())
        self.assertEqual(len(self.conduct(FakeRunner(), versions={"gradwire": "2"})), RUNS)

    def test_all_that_decides_what_a_run_measures_makes_it_another_one(self):
        run = Run([["/x/gradwire-worker", "--lr", "1"]])
        others = (run, Run([["/x/gradwire-worker", "--lr", "2"]]), Run(run.ranks * 2),
                  Run(run.ranks, coordinator=False), Run(run.ranks, environment={"A": "b"}),
                  Run(run.ranks, inputs=("digest",)))
        marks = {fingerprint(other, request_of(self.out, hosts=hosts))
                 for other in others for hosts in ("", "auto")}
        self.assertEqual(len(marks), 2 * len(others))

    def test_equal_version_in_another_folder_goes_on(self):
        self.conduct(FakeRunner())
        programs = {name: path.replace("/x/", "/y/")
                    for name, path in request_of(self.out)["programs"].items()}
        self.assertEqual(self.conduct(FakeRunner(fail_at=0), programs=programs), [])

    def test_damaged_record_is_run_anew(self):
        self.conduct(FakeRunner())
        (self.out / "runs/ddp.json").write_text('{"fingerprint": "')
        self.assertEqual(len(self.conduct(FakeRunner())), 1)

    def test_kept_run_has_its_command_and_machine(self):
        self.conduct(FakeRunner())
        record = json.loads((self.out / "runs/ddp.json").read_text())
        self.assertEqual(record["commands"][3][:3], ["/x/gradwire-worker", "--model", "vgg11"])
        self.assertIn("kernel", record["environment"])
        self.assertEqual(len(record["ranks"]), 4)

    def test_coordinator_through_which_gradients_go_is_kept_and_shown(self):
        self.conduct(FakeRunner(), figures.render)
        kept = {name: json.loads((self.out / f"runs/{name}.json").read_text())["coordinator"]
                for name in ("gather-scatter", "all-reduce")}
        self.assertEqual((kept["gather-scatter"]["phase_seconds"]["receive"], kept["all-reduce"]),
                         (0.3, None))
        row = json.loads((self.out / "results.json").read_text())["tables"]["coordinator"][0]
        self.assertEqual(row, {"run": "gather and scatter", "wait": 0.5, "receive": 0.3,
                               "fold": 0.15, "send": 0.05, "hidden": 0.2, "total": 1.0})
        self.assertIn("\ngradwire-coordinator --world-size 4 --aggregation-summary /dev/stdout\n",
                      (self.out / "commands.txt").read_text())

    def test_sentences_of_a_table_are_prose(self):
        self.conduct(FakeRunner())
        self.assertRegex((self.out / "report.html").read_text(),
                         '<h2>Answers [^<]*</h2>\n<div class="wide"><table class="text">')

    def test_coordinator_that_writes_what_it_did_is_another_run(self):
        marks = {fingerprint(Run([["/x/gradwire-worker"]], coordinator_options=options),
                             request_of(self.out)) for options in ((), ("--trace", "f"))}
        self.assertEqual(len(marks), 2)

    def test_folder_with_other_content_is_refused(self):
        self.out.mkdir()
        (self.out / "thesis.tex").touch()
        self.assert_refused("holds no experiment")
        self.assertEqual([file.name for file in self.out.iterdir()], ["thesis.tex"])

    def test_folder_of_another_scale_is_refused(self):
        self.conduct(FakeRunner())
        self.assert_refused("holds experiment course at scale tiny, got course at scale quick",
                            scale="quick")

    def test_names_that_are_in_no_table_are_refused(self):
        syncs = [name for name in TABLES["syncs"] if name != "gather-scatter"]
        tables = {**TABLES, "syncs": [*syncs, "gather-scatters"]}
        with self.assertRaisesRegex(Failure, "^run gather-scatter: --sync: got 'gather-scatter', "
                                    "expected one of none, .*; did you mean gather-scatters\\?$"):
            conduct_with(FakeRunner(), request_of(self.out, tables=tables), no_images)

    def test_back_end_that_is_new_in_the_table_is_measured(self):
        tables = {**TABLES, "backends": {**TABLES["backends"], "new": TRAITS}}
        for name, column in (("collectives", "times"), ("ddp-paper", "groups")):
            out = self.out / name
            self.conduct(FakeRunner(), words=[name], out=str(out), tables=tables)
            self.assertIn("new", (out / f"{column}.csv").read_text().split("\n")[0])

    def test_no_hosts_are_made_for_one_process(self):
        for name in ("data-parallel", "inference"):
            out = self.out / name
            self.conduct(FakeRunner(), words=[name], out=str(out), hosts="auto", link_gbit=1)
            environment = json.loads((out / "results.json").read_text())["environment"]
            self.assertEqual((environment["hosts"], environment["link"]),
                             ("all processes on this machine", "unshaped"))
            self.assertEqual(with_hosts(experiment_called(name, EXPERIMENTS),
                                        request_of(out, name, hosts="there"))["hosts"], "there")

    def test_peers_on_hosts_need_threads(self):
        for where in ("hosts", "hostfile"):
            self.assert_refused("needs --threads", peers=True, **{where: "hosts"})

    def test_peers_are_refused_by_experiments_that_measure_none(self):
        self.assert_refused("^--peers: got experiment lab, expected course, time-to-accuracy$",
                            words=["lab"], peers=True)

    def test_links_are_refused_by_experiments_that_do_not_take_them(self):
        self.assert_refused("^--link: got experiment course, expected time-to-accuracy$",
                            link=[{"rate": "1gbit", "gbit": 1}])

    def test_other_options_are_refused_by_experiments_that_do_not_take_them(self):
        for name, value, takers in (("target", 0.5, "time-to-accuracy"),
                                    ("weights", "/w", "data-parallel"),
                                    ("pretrain", 3, "data-parallel")):
            self.assert_refused(f"^--{name}: got experiment course, expected {takers}$",
                                **{name: value})

    def test_links_that_cannot_be_shaped_are_said(self):
        self.conduct(FakeRunner(), words=["time-to-accuracy"], link=[{"rate": "1gbit", "gbit": 1}])
        self.assertIn("--link 1gbit: links were not shaped, which needs --hosts",
                      self.said.getvalue())
        self.assertIn("at 1gbit no less than (s)", (self.out / "report.md").read_text())

    def test_another_rate_of_the_links_is_run_anew(self):
        rates = [{"rate": "1gbit", "gbit": 1}, {"rate": "100mbit", "gbit": 0.1}]
        asked = {"words": ["time-to-accuracy"], "hosts": "hosts"}
        first = self.conduct(FakeRunner(), link=rates[:1], **asked)
        self.assertEqual({run.rate for run in first}, {"1gbit"})
        second = self.conduct(FakeRunner(), link=rates, **asked)
        self.assertEqual({run.rate for run in second}, {"100mbit"})

    def test_peers_of_another_pytorch_run_again(self):
        self.conduct(FakeRunner(), peers=True)
        self.assertEqual(self.conduct(FakeRunner(), peers=True), [])
        with mock.patch.object(training, "installed_torch", return_value="another"):
            repeated = self.conduct(FakeRunner(), peers=True)
        self.assertGreater(len(repeated), 0)
        self.assertTrue(all("--mode" in run.ranks[0] for run in repeated))

    def test_peers_stand_in_the_table(self):
        self.conduct(FakeRunner(), peers=True)
        self.assertIn("gloo", (self.out / "times.csv").read_text().split("\n")[0])

    def test_hidden_scales_are_not_named(self):
        self.assert_refused("got 'huge', expected quick or full$", scale="huge")

    def test_misspelt_scale_gets_the_nearest(self):
        self.assert_refused("got 'quik', expected quick or full; did you mean quick\\?$",
                            scale="quik")

    def test_missing_name_lists_the_experiments(self):
        for words in ([], ["course", "lab"]):
            with self.assertRaisesRegex(WrongUsage, f"^got {len(words)} names, expected one of "
                                        "course, .*, list, claims$"):
                experiment.main_with(request_of(self.out, words=words), None)

    def test_every_experiment_goes_from_its_plan_to_its_report(self):
        for one in EXPERIMENTS:
            out = self.out / one.name
            runs = self.conduct(FakeRunner(), words=[one.name], out=str(out))
            self.assertGreater(len(runs), 1)
            self.assertLessEqual(max(len(run.ranks) for run in runs), one.most_ranks)
            self.assertIn("confirmed", (out / "claims.csv").read_text())


class Plans(unittest.TestCase):
    def test_every_experiment_has_both_scales_and_says_what_they_are(self):
        for one in EXPERIMENTS:
            self.assertLessEqual({"quick", "full"}, one.scales.keys())
            self.assertTrue(all(scale["about"].endswith(".") for scale in one.scales.values()))

    def test_no_two_runs_of_a_plan_have_one_name(self):
        for one in EXPERIMENTS:
            for scale, sizes in one.scales.items():
                for more in ({}, {"hosts": "auto"}, {"peers": True, "data_dir": "/d"}):
                    request = with_hosts(one, request_of("out", one.name, scale=scale, **more))
                    setting = Setting(request, sizes, 8, 1 << 40)
                    names = [work.name for work in one.runs(setting)]
                    self.assertEqual(sorted(names), sorted(set(names)), (one.name, scale, more))

    def test_time_left_goes_by_what_was_done(self):
        steps = [Step(None, None, "", 10, {"seconds": 20, "ranks": [{}]}),
                 Step(None, None, "", 7, {"seconds": 0, "ranks": []}), Step(None, None, "", 30)]
        self.assertEqual(Pace(steps).left(), 60)

    def test_time_left_goes_by_the_part_that_is_done(self):
        steps = [Step(None, None, "", 10, {"seconds": 40, "ranks": [{}]}),
                 Step(None, None, "", 10), Step(None, None, "", 30)]
        self.assertAlmostEqual(Pace(steps).left(steps[1], part=0.5, elapsed=20), 20 + 120)

    def test_time_left_is_not_known_until_a_run_has_ended(self):
        steps = [Step(None, None, "", 10), Step(None, None, "", 30)]
        pace = Pace(steps)
        self.assertIsNone(pace.left())
        self.assertIsNone(pace.left(steps[0], part=0.5, elapsed=20))
        steps[0].record = {"seconds": 5, "ranks": [{}]}
        pace.update()
        self.assertEqual(pace.left(), 15)

    def test_run_that_is_short_beside_the_others_does_not_tell_their_time(self):
        steps = [Step(None, None, "", 2, {"seconds": 0.1, "ranks": [{}]}),
                 Step(None, None, "", 30), Step(None, None, "", 10)]
        self.assertIsNone(Pace(steps).left())
        steps[1].record = {"seconds": 30, "ranks": [{}]}
        self.assertEqual(Pace(steps).left(), 10)

    def test_time_that_a_run_took_so_far_counts_before_its_part_tells(self):
        steps = [Step(None, None, "", 10, {"seconds": 20, "ranks": [{}]}), Step(None, None, "", 30)]
        self.assertEqual([Pace(steps).left(steps[1], 0.01, elapsed) for elapsed in (0, 25, 90)],
                         [60, 35, 0])

    def test_number_of_a_run_counts_those_that_are_kept(self):
        steps = [Step(types.SimpleNamespace(name=f"run-{place}", sweep="",
                                            read=lambda _setting, texts: texts),
                      Run([["/x/run"]], coordinator=False), "", 1, record)
                 for place, record in enumerate(({"ranks": [{}], "seconds": 1.0}, None, None))]
        runner = mock.Mock()
        runner.run.return_value = Outputs(["printed"])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            conduct(steps, None, mock.Mock(), runner, {})
        self.assertEqual([text.partition("  took")[0] for text in said.getvalue().splitlines()],
                         ["run 2 of 3  run-1", "run 3 of 3  run-2"])

    def ticker(self, is_terminal, seconds):
        """What is shown of a run of 10 iterations, beside a run that took twice as long as expected.
        `seconds`: (iterations that it has printed, seconds since its start)."""
        work = Training("run-1", "", 1, 1, 10, ())
        steps = [Step(work, None, "", 20, {"seconds": 40, "ranks": [{}]}), Step(work, None, "", 10)]
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                mock.patch.object(said, "isatty", lambda: is_terminal), \
                mock.patch.object(conducting.time, "monotonic", side_effect=lambda: self.now):
            self.now = 100.0
            ticker = conducting.Ticker("run 2 of 2  run-1", steps[1], Pace(steps))
            for count, self.now in seconds:
                self.now += 100.0
                ticker.watch(b'{"step": 1}\n' * count)
            ticker.clear()
        return said.getvalue().split("\r\x1b[K")[1:]

    def test_progress_of_a_run_is_shown_twice_a_second_on_a_terminal_alone(self):
        seconds = [(0, 1.0), (1, 1.25), (1, 1.5), (5, 10.0), (20, 30.0)]
        self.assertEqual(self.ticker(True, seconds), [
            "run 2 of 2  run-1  0 %, in all about 19 s left",
            "run 2 of 2  run-1  10 %, in all about 14 s left",
            "run 2 of 2  run-1  50 %, in all about 10 s left",
            "run 2 of 2  run-1  100 %, in all about 0 s left", ""])
        self.assertEqual(self.ticker(False, seconds), [])

    def announced(self, *records):
        """What is said of a plan whose runs have these records."""
        steps = [Step(types.SimpleNamespace(name=f"run-{place}", title="t"), None, "", 10, record)
                 for place, record in enumerate(records)]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            announce(steps, types.SimpleNamespace(path="out"))
        return said.getvalue().splitlines()

    def test_plan_says_which_runs_are_kept_and_what_time_is_left_for_the_others(self):
        kept = {"seconds": 20, "ranks": [{}]}
        self.assertEqual(self.announced(kept, None), [
            "2 runs, of which 1 are kept in out", "  run-0 t: kept", "  run-1 t: about 20 s",
            "about 20 s left"])
        self.assertEqual(self.announced(kept, kept), [
            "2 runs, of which 2 are kept in out", "  run-0 t: kept", "  run-1 t: kept"])

    def test_memory_that_ended_a_sweep_in_an_earlier_command_ends_that_sweep_alone(self):
        steps = [Step(types.SimpleNamespace(name=f"run-{place}", sweep=sweep,
                                            read=lambda _setting, texts: texts),
                      Run([["/x/run"]], coordinator=False), "", 1)
                 for place, sweep in enumerate(("a", "b", "", "a"))]
        steps[0].record = {"ranks": [], "seconds": 0.0}
        runner, folder = mock.Mock(), mock.Mock()
        runner.run.return_value = Outputs(["printed"])
        with contextlib.redirect_stderr(io.StringIO()):
            conduct(steps, None, folder, runner, {})
        self.assertEqual([step.record["ranks"] for step in steps],
                         [[], ["printed"], ["printed"], []])
        self.assertEqual([call.args[0] for call in folder.keep.call_args_list],
                         ["run-1", "run-2", "run-3"])

    def test_each_option_that_names_a_strategy_is_looked_up(self):
        for option_name, table in (("--model", "models"), ("--dataset", "datasets"),
                                   ("--sync", "syncs"), ("--backend", "backends"),
                                   ("--wire", "wires"), ("--compress", "compressions"),
                                   ("--op", "operations")):
            names = list(TABLES[table])
            step = Step(types.SimpleNamespace(name="a"),
                        Run([["/x/run", option_name, f"{names[-1]}:2"]]), "", 1)
            experiment.check_names([step], TABLES)
            step.run.ranks[0][-1] = "odd:2"
            with self.assertRaisesRegex(Failure, f"^run a: {option_name}: got 'odd:2', expected one "
                                        f"of {', '.join(names)}"):
                experiment.check_names([step], TABLES)

    def test_durations_have_the_unit_that_suits(self):
        self.assertEqual([duration(seconds) for seconds in (40, 360, 9000)],
                         ["40 s", "6 min", "2.5 h"])

    def test_unknown_name_gets_the_nearest(self):
        with self.assertRaisesRegex(Failure, "did you mean course"):
            experiment.experiment_called("curse", EXPERIMENTS)

    def test_claim_that_cannot_be_judged_says_why_and_keeps_its_numbers(self):
        claim = judge("a", "b", False, "1 s", "no hosts")
        self.assertEqual((claim.verdict, claim.numbers), (NOT_MEASURABLE, "no hosts; 1 s"))
        self.assertEqual(judge("a", "b", False, "1 s").verdict, NOT_CONFIRMED)


if __name__ == "__main__":
    unittest.main()
