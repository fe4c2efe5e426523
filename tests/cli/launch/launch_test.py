"""cli/launch/launch.py: what is started in which order, what is said of it, and the exit code."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch import launch
from cli.launch.launch import Launch, check_outputs
from cli.launch.members import Members
from cli.launch.supervisor import Loss
from cli.launch.terminal import ERR, OUT
from cli.runs.failure import EXIT_USAGE, Failure
from cli.terminal.command import WrongUsage
from fakes import REQUEST, FakeSupervisor, Lost

SUMMARY = {"rank": 0, "iteration_seconds": {"mean": 0.5, "p50": 0.5}, "iterations": 2}
LOSS = Loss(frozenset([1]), "it was silent for 2 s")
EVENT = '[\n{"name":"a","ph":"X","ts":5},\n]\n'


class FakeTerminal:
    bar_columns = 0

    def __init__(self):
        self.lines = {OUT: [], ERR: []}
        self.lost = {}

    def print_line(self, fd, line):
        self.lines[fd].append(line.decode())


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.supervisor = FakeSupervisor()
        self.terminal = FakeTerminal()

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return str(path)

    def launch(self, hosts=None, **changes):
        request = {**REQUEST, "scratch": "", **changes}
        members = Members(request, [], self.folder, {})
        return Launch(request, members, self.terminal, self.supervisor, hosts)

    def run_all(self, summaries=2, **changes):
        for rank in range(summaries):
            self.file(f"summary-{rank}.json", json.dumps({**SUMMARY, "rank": rank}))
        return self.launch(**changes).run()

    def said(self):
        return "\n".join(self.terminal.lines[ERR])

    def test_lines_that_are_missing_fail_a_run_that_went_well(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=0.0.0.0:7\n")
        self.terminal.lost = {OUT: "no space left on device"}
        self.assertEqual(self.run_all(), 1)
        self.assertIn("gradwire launch: cannot write to stdout: no space left on device; some lines "
                      "are missing", self.said())

    def test_mpirun_is_the_only_worker(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=0.0.0.0:7\nmetrics=[::]:8\n")
        self.run_all(mpirun=True)
        self.assertEqual([member.name for member in self.supervisor.started],
                         ["coordinator", "mpirun"])

    def test_coordinator_is_first_and_workers_get_its_address(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=0.0.0.0:7\nmetrics=[::]:8\n")
        self.assertEqual(self.run_all(), 0)
        names = [member.name for member in self.supervisor.started]
        self.assertEqual(names, ["coordinator", "rank 0", "rank 1"])
        for worker in self.supervisor.started[1:]:
            self.assertEqual(worker.command.environment["GRADWIRE_COORDINATOR"], "127.0.0.1:7")
        page = f"http://{os.uname().nodename}:8"
        self.assertIn(f"watch the run on {page}/; metrics are on {page}/metrics", self.said())

    def test_encrypted_pages_have_another_address(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=[::1]:7\nmetrics=[::1]:8\n")
        for coordinator, scheme in (({"tls-cert": "c"}, "https"),
                                    ({"tls-cert": "c", "plain-http": "true"}, "http")):
            self.terminal.lines[ERR].clear()
            self.run_all(coordinator=coordinator)
            self.assertIn(f"watch the run on {scheme}://[::1]:8/", self.said())

    def test_coordinator_without_metrics_is_watched_nowhere(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=127.0.0.1:7\n")
        self.assertEqual((self.run_all(), self.said()), (0, ""))

    def test_port_file_of_an_earlier_run_is_not_believed(self):
        self.file("ports", "grpc=127.0.0.1:1\n")
        self.run_all()
        self.assertIn("the coordinator wrote no address to", self.supervisor.cause)
        self.assertIn("within 30 s", self.supervisor.cause)
        self.assertEqual(len(self.supervisor.started), 1)

    def test_no_coordinator_starts_workers_alone(self):
        self.assertEqual(self.run_all(coordinator=None), 0)
        self.assertEqual([member.name for member in self.supervisor.started], ["rank 0", "rank 1"])

    def test_program_gets_no_table(self):
        self.assertEqual(self.run_all(coordinator=None, program="/bin/train", summaries=0), 0)
        self.assertEqual((self.terminal.lines[OUT], self.said()), ([], ""))
        self.assertEqual(self.supervisor.started[0].command.argv, ["/bin/train"])

    def test_table_and_bottleneck_are_printed_and_summary_is_written(self):
        summary = self.folder / "all.json"
        self.assertEqual(self.run_all(coordinator=None, summary=str(summary)), 0)
        self.assertEqual(len(self.terminal.lines[OUT]), 5)
        written = json.loads(summary.read_text())
        self.assertEqual([rank["rank"] for rank in written["ranks"]], [0, 1])
        self.assertIsNone(written["coordinator"])

    def test_coordinator_that_averages_has_a_table_and_is_in_the_summary(self):
        summary = self.folder / "all.json"
        times = {"wait": 0.1, "receive": 0.2, "fold": 0.03, "send": 0.05, "hidden_send": 0}
        told = {"iterations": 1, "iteration_seconds": {"mean": 0.38}, "phase_seconds": times}
        self.file("aggregation.json", json.dumps(told))
        self.assertEqual(self.run_all(coordinator=None, summary=str(summary)), 0)
        self.assertRegex("\n".join(self.terminal.lines[OUT]), r"\n  coordinator +380.0 +100.0 +200.0 ")
        self.assertEqual(json.loads(summary.read_text())["coordinator"], told)

    def test_member_that_failed_gives_its_code_and_no_table(self):
        self.supervisor.exit_code, self.supervisor.cause = 3, "rank 1 ended with exit code 3"
        self.assertEqual(self.run_all(coordinator=None, summaries=0), 3)
        self.assertEqual(self.said(),
                         "gradwire launch: rank 1 ended with exit code 3; all have ended")
        self.assertEqual(self.terminal.lines[OUT], [])

    def test_run_that_ended_early_has_table_and_summary_of_what_there_is(self):
        self.supervisor.exit_code, self.supervisor.cause = 137, "coordinator was killed"
        summary = self.folder / "all.json"
        self.assertEqual(self.run_all(coordinator=None, summaries=1, summary=str(summary)), 137)
        self.assertEqual(json.loads(summary.read_text()),
                         {"ranks": [SUMMARY], "missing_ranks": [1], "coordinator": None,
                          "ended": {"code": 137, "reason": "coordinator was killed"}})
        self.assertEqual(len(self.terminal.lines[OUT]), 3)  # without a bottleneck
        self.assertEqual(self.terminal.lines[ERR],
                         ["gradwire launch: coordinator was killed; all have ended"])

    def test_run_that_ended_before_its_first_step_has_a_summary(self):
        self.supervisor.exit_code, self.supervisor.cause = 1, "x"
        summary = self.folder / "all.json"
        self.assertEqual(self.run_all(coordinator=None, summaries=0, summary=str(summary)), 1)
        self.assertEqual(json.loads(summary.read_text())["missing_ranks"], [0, 1])

    def test_member_that_cannot_be_started_ends_all_with_its_code(self):
        self.supervisor.start_failure = Failure("cannot start 'x'", EXIT_USAGE)
        self.assertEqual(self.run_all(coordinator=None), EXIT_USAGE)
        self.assertEqual(self.said(), "gradwire launch: cannot start 'x'; all have ended")

    def test_lost_members_are_told_of_in_a_run_that_went_on(self):
        self.supervisor.lost = [Lost("rank 1 (process 7)", "was killed", LOSS)]
        self.assertEqual(self.run_all(coordinator=None), 0)
        self.assertEqual(self.said(), "gradwire launch: rank 1 (process 7) was killed; the others "
                         "went on with its ranks, and the result is the same")

    def test_lost_member_that_the_launcher_ended_is_told_of_as_such(self):
        self.supervisor.lost = [Lost("rank 1 (process 7)", "was killed", LOSS, True)]
        self.assertEqual(self.run_all(coordinator=None), 0)
        self.assertEqual(
            self.said(), "gradwire launch: rank 1 (process 7) was lost: it was silent for 2 s; it "
            "still existed when the others had finished, so the launcher ended it; the others went "
            "on with its ranks, and the result is the same")

    def test_member_that_was_ended_late_is_told_of(self):
        self.supervisor.late = [Lost("rank 1 (process 7)", "was killed")]
        self.assertEqual(self.run_all(coordinator=None), 0)
        self.assertEqual(self.said(), "gradwire launch: rank 1 (process 7) still existed 10 s after "
                         "the run had ended well, so the launcher ended it")

    def test_run_that_failed_after_a_loss_tells_of_both(self):
        self.supervisor.exit_code, self.supervisor.cause = 137, "coordinator was killed"
        self.supervisor.lost = [Lost("rank 1 (process 7)", "was killed", LOSS),
                                Lost("rank 0 (process 6)", "ended with exit code 75")]
        self.assertEqual(self.run_all(coordinator=None), 137)
        self.assertEqual(self.terminal.lines[ERR], [
            "gradwire launch: rank 1 (process 7) was killed; the others went on with its ranks",
            "gradwire launch: coordinator was killed; all have ended"])

    def test_summary_lacks_one_that_was_lost_after_the_last_step(self):
        for loss in (Loss(frozenset([1]), "its session broke", after_last_step=True), None):
            self.setUp()
            summary = self.folder / "all.json"
            self.supervisor.lost = [Lost("rank 1", "was killed", loss, ranks=frozenset([1]))]
            self.assertEqual(self.run_all(coordinator=None, summaries=1, summary=str(summary)), 0)
            self.assertEqual(self.said(), "gradwire launch: rank 1 was killed; the others did not need "
                             "it any more, and the result is the same")
            self.assertEqual(json.loads(summary.read_text()),
                             {"ranks": [SUMMARY], "missing_ranks": [1], "coordinator": None})

    def test_each_lost_worker_is_told_of_in_its_own_way(self):
        after = Loss(frozenset([2, 3]), "its session broke", after_last_step=True)
        self.supervisor.lost = [Lost("ranks 0-1", "was killed", LOSS, ranks=frozenset([0, 1])),
                                Lost("ranks 2-3", "ended with exit code 1", after,
                                     ranks=frozenset([2, 3]))]
        self.supervisor.late = [Lost("ranks 4-5", "x"), Lost("ranks 6-7", "x")]
        for rank in range(4, 8):
            self.file(f"summary-{rank}.json", json.dumps({**SUMMARY, "rank": rank}))
        self.assertEqual(self.run_all(summaries=0, coordinator=None, workers=4, world_size=8), 0)
        self.assertEqual([line.removeprefix("gradwire launch: ").split(", and")[0]
                          for line in self.terminal.lines[ERR]],
                         ["ranks 0-1 was killed; the others went on with its ranks",
                          "ranks 2-3 ended with exit code 1; the others did not need it any more",
                          *(f"ranks {ranks} still existed 10 s after the run had ended well, so the "
                            "launcher ended it" for ranks in ("4-5", "6-7"))])

    def test_missing_summary_is_a_failure(self):
        self.assertEqual(self.run_all(coordinator=None, summaries=1), 1)
        self.assertIn("gradwire launch: no summary of rank 1", self.said())
        self.assertEqual(self.run_all(coordinator=None, workers=4, world_size=4), 1)
        self.assertIn("no summary of ranks 2, 3", self.said())

    def test_summary_of_a_rank_that_was_not_lost_is_missed_beside_a_loss(self):
        self.supervisor.lost = [Lost("rank 1", "was killed", LOSS, ranks=frozenset([1]))]
        self.assertEqual(self.run_all(coordinator=None, summaries=1, workers=3, world_size=3), 1)
        self.assertIn("gradwire launch: no summary of rank 2", self.terminal.lines[ERR])

    def test_bottleneck_knows_the_kind_of_each_sync_and_back_end(self):
        times = {"phase_seconds": {"exposed_communication": 0.4}, "wire": "fp32", "backend": "ring"}
        kinds = {"overlapping": ["ddp", "parameter-server"], "halving": ["ring"],
                 "periodic": ["diloco"], "served": ["parameter-server"]}
        for sync, advice in (("ddp", "try --wire bf16 (half the bytes) or --compress int8"),
                             ("all-reduce", "try --sync ddp (transfers run beside backward), --wire"),
                             ("diloco:4", "try a larger H (--sync diloco:H) or --delay (transfers run "
                              "beside further steps), --wire"),
                             ("parameter-server", "try a larger --staleness")):
            for number in range(2):
                self.file(f"summary-{number}.json",
                          json.dumps({**SUMMARY, **times, "rank": number, "sync": sync}))
            self.launch(coordinator=None, **kinds).run()
            self.assertIn(advice, self.terminal.lines[OUT][-1])

    def test_losses_have_a_table_behind_that_of_the_ranks(self):
        recovery = {"generation": 2, "first_step": 7, "lost_ranks": [1], "seconds_lost": 0.5,
                    "carriers": [{"ranks": [0, 1]}]}
        self.file("summary-0.json", json.dumps({**SUMMARY, "failures": {"recoveries": [recovery]}}))
        self.file("summary-1.json", json.dumps({**SUMMARY, "rank": 1}))
        self.assertEqual(self.launch(coordinator=None).run(), 0)
        self.assertRegex("\n".join(self.terminal.lines[OUT]), r"\n +rank 1 +7 +ranks 0, 1 +0\.500 ")

    def test_trace_is_one_of_all_members(self):
        trace = self.folder / "trace.json"
        for process in range(2):
            self.file(f"trace-{process}.json", EVENT)
        self.assertEqual(self.run_all(coordinator=None, trace=str(trace)), 0)
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), 2)

    def test_trace_has_the_coordinators_part_too(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=127.0.0.1:7\n")
        for process in range(3):
            self.file(f"trace-{process}.json", EVENT)
        trace = self.folder / "trace.json"
        self.assertEqual(self.run_all(trace=str(trace)), 0)
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), 3)

    def test_workers_with_several_ranks_have_a_trace_each_and_their_ranks_a_summary_each(self):
        self.supervisor.on_start = lambda: self.file("ports", "grpc=127.0.0.1:7\n")
        for process in range(3):
            self.file(f"trace-{process}.json", EVENT)
        trace, summary = self.folder / "trace.json", self.folder / "all.json"
        self.assertEqual(self.run_all(summaries=5, workers=2, world_size=5, trace=str(trace),
                                      summary=str(summary)), 0, self.said())
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), 3)
        self.assertEqual([one["rank"] for one in json.loads(summary.read_text())["ranks"]],
                         [0, 1, 2, 3, 4])
        self.assertEqual([member.name for member in self.supervisor.started],
                         ["coordinator", "ranks 0-2", "ranks 3-4"])

    def test_trace_that_is_missing_fails_a_run_that_went_well(self):
        trace = self.folder / "trace.json"
        self.file("trace-0.json", EVENT)
        self.assertEqual(self.run_all(coordinator=None, trace=str(trace)), 1)
        self.assertIn("gradwire launch: --trace: no trace in '", self.said())
        self.assertTrue(self.terminal.lines[OUT])

    def test_trace_of_a_run_that_went_on_without_a_host_lacks_its_part_and_says_so(self):
        trace = self.folder / "trace.json"
        self.file("trace-0.json", EVENT)
        self.supervisor.lost = [Lost("rank 1", "was killed", LOSS, ranks=frozenset([1]))]
        self.assertEqual(self.run_all(coordinator=None, trace=str(trace)), 0, self.said())
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), 1)
        self.assertIn(f"'{trace}' lacks the part of 1 process, which left none", self.said())

    def test_trace_says_how_many_parts_it_lacks_unless_it_lacks_none(self):
        trace = self.folder / "trace.json"
        self.supervisor.lost = [Lost("rank 1", "was killed", LOSS, ranks=frozenset([1]))]
        for there, lacks in ((3, ""), (1, "lacks the part of 2 processes, which left none")):
            self.terminal.lines[ERR].clear()
            for process in range(3):
                file = pathlib.Path(self.file(f"trace-{process}.json", EVENT))
                if process >= there:
                    file.unlink()
            self.assertEqual(self.run_all(summaries=3, coordinator=None, workers=3, world_size=3,
                                          trace=str(trace)), 0, self.said())
            self.assertIn(lacks or "gradwire launch: ", self.said())
            self.assertEqual("lacks" in self.said(), bool(lacks))

    def test_summary_that_cannot_be_written_does_not_cost_the_table(self):
        self.assertEqual(self.run_all(coordinator=None, summary="/dev/full"), 1)
        self.assertIn("/dev/full", self.said())
        self.assertTrue(any("iteration ms" in line for line in self.terminal.lines[OUT]))

    def test_trace_of_a_run_that_failed_is_of_those_that_wrote_one(self):
        trace = self.folder / "trace.json"
        self.file("trace-1.json", EVENT)
        self.supervisor.exit_code, self.supervisor.cause = 3, "x"
        self.assertEqual(self.run_all(coordinator=None, trace=str(trace)), 3)
        self.assertEqual(len(json.loads(trace.read_text())["traceEvents"]), 1)

    def test_what_is_on_hosts_is_collected_also_after_a_failure(self):
        for cause in ("", "rank 0 failed"):
            hosts = mock.Mock()
            self.supervisor = FakeSupervisor(cause=cause, exit_code=1 if cause else 0)
            self.run_all(coordinator=None, hosts=hosts)
            self.assertEqual(hosts.collect.call_args[0][1], cause)

    def test_coordinator_on_a_host_is_reached_under_its_address(self):
        hosts = mock.Mock(coordinator_address="10.0.0.1")
        hosts.bound_addresses.return_value = {"grpc": "0.0.0.0:7", "metrics": "10.0.0.1:8"}
        self.assertEqual(self.run_all(hosts=hosts), 0)
        self.assertEqual(self.supervisor.started[1].command.environment["GRADWIRE_COORDINATOR"],
                         "10.0.0.1:7")
        self.assertIn("http://10.0.0.1:8/metrics", self.said())
        hosts.bound_addresses.return_value = {"grpc": "0.0.0.0:7", "metrics": "0.0.0.0:9"}
        self.run_all(hosts=hosts)
        self.assertIn("watch the run on http://10.0.0.1:9/;", self.said())

    def test_coordinator_on_a_host_without_metrics_is_watched_nowhere(self):
        hosts = mock.Mock(coordinator_address="10.0.0.1")
        hosts.bound_addresses.return_value = {"grpc": "10.0.0.1:7"}
        self.assertEqual((self.run_all(hosts=hosts), self.said()), (0, ""))

    def test_links_of_a_known_speed_have_their_share_in_the_table(self):
        times = {"phase_seconds": {"communication": 0.25}, "world_size": 2, "backend": "ring",
                 "bytes_sent": 200, "bytes_received": 200}
        for per_byte, shown in ((1e-3, True), (None, False)):
            self.terminal.lines[OUT].clear()
            for number in range(2):
                self.file(f"summary-{number}.json", json.dumps({**SUMMARY, **times, "rank": number}))
            self.assertEqual(self.launch(coordinator=None, seconds_per_byte=per_byte).run(), 0)
            head, first = self.terminal.lines[OUT][:2]
            self.assertEqual("of plan %" in head, shown)
            self.assertEqual(first[:head.index("first loss")].split()[-1] == "40", shown)

    def test_worker_lost_after_the_last_step_is_told_of_also_if_the_run_failed_then(self):
        self.supervisor.exit_code, self.supervisor.cause = 1, "coordinator failed"
        self.supervisor.lost = [Lost("rank 1", "was killed", Loss(frozenset([1]), "it left",
                                                                  after_last_step=True))]
        self.assertEqual(self.run_all(coordinator=None), 1)
        self.assertEqual(self.terminal.lines[ERR], [
            "gradwire launch: rank 1 was killed; the others did not need it any more",
            "gradwire launch: coordinator failed; all have ended"])

    def test_log_that_could_not_be_fetched_does_not_hide_the_result(self):
        hosts = mock.Mock()
        hosts.collect.side_effect = Failure("a log is still on host a: /tmp/x")
        self.assertEqual(self.run_all(coordinator=None, hosts=hosts), 0)
        self.assertEqual(self.said(), "gradwire launch: a log is still on host a: /tmp/x")
        self.assertTrue(self.terminal.lines[OUT])

    def test_run_with_checkpoints_that_failed_is_said_to_be_continued(self):
        with_folder, end = {"run-dir": "/runs/a"}, ("continues the run from its last checkpoint in "
                                                    "'/runs/a', or from step 0 if there is none")
        hint, by_auto = (f"gradwire launch: the same command {how}{end}"
                         for how in ("", "with --resume auto "))
        for exit_code, coordinator, said in (
                (1, with_folder, True), (137, with_folder, True), (EXIT_USAGE, with_folder, False),
                (1, {**with_folder, "resume": "auto"}, True),
                (1, {**with_folder, "resume": "never"}, None),
                (1, {**with_folder, "resume": "100"}, None),
                (75, with_folder, False), (1, {"listen": "a:1"}, False)):
            self.terminal.lines[ERR].clear()
            self.supervisor = FakeSupervisor(cause="rank 0 failed", exit_code=exit_code)
            self.supervisor.on_start = lambda: self.file("ports", "grpc=127.0.0.1:7\n")
            self.assertEqual(self.run_all(coordinator=coordinator), exit_code)
            self.assertEqual(hint in self.terminal.lines[ERR], said is True, (exit_code, coordinator))
            self.assertEqual(by_auto in self.terminal.lines[ERR], said is None, coordinator)


class Outputs(unittest.TestCase):
    def assert_refused(self, message, **changes):
        with self.assertRaises(WrongUsage) as told:
            check_outputs({**REQUEST, **changes})
        self.assertEqual(str(told.exception), message)

    def test_files_that_cannot_be_written_are_refused_before_anything_starts(self):
        why = "cannot write /no/x: no such file or directory"
        for option in ("summary", "trace"):
            self.assert_refused(f"--{option}: {why}", **{option: "/no/x"})

    def test_log_is_written_here_only_of_hosts(self):
        check_outputs({**REQUEST, "log_jsonl": "/no/x"})
        self.assert_refused("--log-jsonl: cannot write /no/x.rank0: no such file or directory",
                            log_jsonl="/no/x", hostfile="hosts")

    def test_log_of_each_rank_may_have_a_folder_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "{rank}", "log")
            given = {"log_jsonl": str(path), "hostfile": "hosts"}
            for rank in range(REQUEST["world_size"]):
                why = f"cannot write {folder}/{rank}/log: no such file or directory"
                self.assert_refused(f"--log-jsonl: {why}", **given)
                os.mkdir(f"{folder}/{rank}")
            check_outputs({**REQUEST, **given})

    def test_port_file_is_written_here_only_of_hosts(self):
        given = {"coordinator": {"listen": "x", "port-file": "/no/x"}}
        check_outputs({**REQUEST, **given})
        self.assert_refused("--port-file: cannot write /no/x: no such file or directory",
                            hostfile="hosts", **given)

    def test_nothing_to_write_is_right(self):
        for coordinator in (REQUEST["coordinator"], None):
            check_outputs({**REQUEST, "hostfile": "hosts", "coordinator": coordinator})


class Main(unittest.TestCase):
    def test_mpirun_that_cannot_run_is_refused_before_anything_starts(self):
        request = {**REQUEST, "mpirun": True, "programs": {"mpi": "/no/libgradwire_mpi.so"}}
        with mock.patch.object(Launch, "run") as run, \
                self.assertRaisesRegex(WrongUsage, "^--backend mpi: no /no/libgradwire_mpi.so; "):
            launch.main(request, [])
        self.assertFalse(run.called)

    def test_file_that_cannot_be_written_is_refused_before_anything_starts(self):
        with mock.patch.object(Launch, "run") as run, \
                self.assertRaisesRegex(WrongUsage, "^--summary: cannot write /no/x: "):
            launch.main({**REQUEST, "summary": "/no/x"}, [])
        self.assertFalse(run.called)

    def test_this_machine_or_hosts(self):
        for hostfile, expected in (("", "run"), ("hosts", "launch_on_hosts")):
            with mock.patch.object(launch, "launch_on_hosts", return_value=7) as there, \
                    mock.patch.object(Launch, "run", return_value=7) as here:
                self.assertEqual(launch.main({**REQUEST, "hostfile": hostfile}, []), 7)
                self.assertEqual((here.called, there.called),
                                 (expected == "run", expected != "run"))


if __name__ == "__main__":
    unittest.main()
