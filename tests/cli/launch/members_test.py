"""cli/launch/members.py: arguments and environment of each program."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch import members
from cli.launch.members import Members, Site, path_for_rank, reachable
from cli.launch.supervisor import Loss
from cli.runs.failure import EXIT_USAGE, Failure

REQUEST = {"programs": {"coordinator": "/bin/gradwire-coordinator",
                        "worker": "/bin/gradwire-worker"},
           "program": "", "workers": 1, "world_size": 1,
           "coordinator": {"listen": "127.0.0.1:0"}, "linger_seconds": 0, "rank_options": [],
           "log_jsonl": "", "metrics": "off", "listen": "0.0.0.0:0", "summary": "", "trace": ""}
COORDINATOR = ["/bin/gradwire-coordinator", "--listen", "127.0.0.1:0"]


def members_of(*arguments, environment=None, **changes):
    if "workers" in changes:
        changes.setdefault("world_size", changes["workers"])
    return Members({**REQUEST, **changes}, list(arguments), "/scratch", environment or {})


def argv_of(number, *arguments, **changes):
    return members_of(*arguments, **changes).worker(number, "a:1", 0).command.argv


class Coordinator(unittest.TestCase):
    def test_gets_its_options_and_a_port_file(self):
        member = members_of().coordinator()
        self.assertEqual((member.name, member.serves, member.linger), ("coordinator", True, 0))
        self.assertEqual(member.command.argv, [*COORDINATOR, "--port-file", "/scratch/ports",
                                               "--aggregation-summary", "/scratch/aggregation.json"])
        self.assertEqual(members_of().aggregation_file, "/scratch/aggregation.json")

    def test_given_port_file_is_passed_on(self):
        given = {"listen": "127.0.0.1:0", "port-file": "p"}
        self.assertEqual(members_of(coordinator=given).port_file, "p")
        self.assertEqual(members_of(coordinator=given).coordinator().command.argv,
                         [*COORDINATOR, "--port-file", "p", "--aggregation-summary",
                          "/scratch/aggregation.json"])

    def test_config_file_is_not_its_own(self):
        environment = {"GRADWIRE_CONFIG": "c", "HOME": "/h"}
        self.assertEqual(members_of(environment=environment).coordinator().command.environment,
                         {"HOME": "/h", "GRADWIRE_TOKEN_FILE": "/scratch/token"})

    def test_all_are_told_where_the_token_is_and_no_argument_holds_it(self):
        made = members_of(environment={"GRADWIRE_TOKEN_FILE": "of-this-shell"})
        for member in (made.coordinator(), made.worker(0, "a:1", 0), made.program(0, "a:1")):
            environment = member.command.environment
            self.assertEqual(environment["GRADWIRE_TOKEN_FILE"], "/scratch/token")
            self.assertFalse([word for word in member.command.argv if "token" in word])

    def test_worker_alone_has_no_token(self):
        environment = members_of(coordinator=None).worker(0, "", 0).command.environment
        self.assertNotIn("GRADWIRE_TOKEN_FILE", environment)

    def test_what_encrypts_is_for_all(self):
        given = {"tls-cert": "c", "tls-key": "k", "tls-ca": "ca", "insecure": "true",
                 "plain-http": "true"}
        made = members_of(coordinator=given)
        self.assertIn("--tls-cert", made.coordinator().command.argv)
        for member in (made.worker(0, "a:1", 0), made.program(0, "a:1")):
            environment = member.command.environment
            self.assertEqual([environment[f"GRADWIRE_TLS_{name}"] for name in ("CERT", "KEY", "CA")],
                             ["c", "k", "ca"])
            self.assertEqual(environment["GRADWIRE_INSECURE"], "true")
            self.assertEqual(environment["GRADWIRE_PLAIN_HTTP"], "true")

    def test_lingers_as_long_as_it_was_told(self):
        self.assertEqual(members_of(linger_seconds=15).coordinator().linger, 15)

    def test_trace_has_a_file_behind_those_of_the_workers(self):
        self.assertEqual(members_of(trace="t", workers=2).coordinator().command.argv[-2:],
                         ["--trace", "/scratch/trace-2.json"])

    def test_program_may_join_as_late_as_it_likes(self):
        argv = members_of(program="/bin/sh").coordinator().command.argv
        self.assertEqual(argv[1:3], ["--rendezvous-timeout-seconds", "1e9"])
        given = {"rendezvous-timeout-seconds": "60"}
        argv = members_of(program="/bin/sh", coordinator=given).coordinator().command.argv
        self.assertEqual(argv[1:3], ["--rendezvous-timeout-seconds", "60"])


class Losses(unittest.TestCase):
    """Lines of the coordinator's log, as coordinator/membership/membership_loss.cc writes them."""

    def assert_told(self, line, *losses):
        self.assertEqual(members.losses_in(b"[12:00:00] [warning] " + line), [*losses])

    def test_others_go_on_with_its_ranks(self):
        self.assert_told(b"rank 2 (10.10.1.3:4711) was lost in step 7: it was silent for 2 s; rank 2 "
                         b"is carried on by others, generation 2 begins with step 7",
                         Loss(frozenset([2]), "it was silent for 2 s"))

    def test_several_ranks_and_causes_with_semicolons(self):
        self.assert_told(b"ranks 0, 12 ([::1]:4711) were lost in step 7: it left: a; b; ranks 0, 12 "
                         b"are carried on by others, generation 2 begins with step 7; rank 3 (a:1) "
                         b"was lost in step 7: its session stream broke; rank 3 is carried on by "
                         b"others, generation 3 begins with step 7",
                         Loss(frozenset([0, 12]), "it left: a; b"),
                         Loss(frozenset([3]), "its session stream broke"))

    def test_after_the_last_step(self):
        for more in (b"", b"; all ranks finished"):
            self.assert_told(b"rank 1 (a:1) was lost after the last step: it was silent for 2 s" + more,
                             Loss(frozenset([1]), "it was silent for 2 s", after_last_step=True))

    def test_run_that_failed_ends_for_it(self):
        self.assert_told(b"the run failed: rank 1 (a:1) was lost in step 3: its session stream broke; "
                         b"1 worker is left, expected 2 or more to go on",
                         Loss(frozenset([1]), "its session stream broke; 1 worker is left, expected 2 "
                              "or more to go on", ends_run=True))

    def test_other_lines_tell_of_none(self):
        for line in (b"rank 1 (a:1) joined; 2 of 2 workers are present", b"",
                     b"rank 1 (a:1) is not heard: it was silent for 2 s; the run is paused",
                     b"rank 1 (a:1) was lost: it was silent for 2 s; the run is paused for 1 s"):
            self.assert_told(line)

    def test_members_know_their_ranks_and_only_workers_end_with_the_run(self):
        made = members_of(workers=2, world_size=4)
        self.assertEqual([(made.worker(number, "a:1", 0).ranks, made.worker(number, "", 0).ends_with_run)
                          for number in range(2)],
                         [(frozenset([0, 1]), True), (frozenset([2, 3]), True)])
        program = made.program(1, "a:1")
        self.assertEqual((program.ranks, program.ends_with_run), (frozenset([1]), False))
        coordinator = made.coordinator()
        self.assertEqual((coordinator.ranks, coordinator.ends_with_run), (frozenset(), False))
        self.assertIs(coordinator.losses_in, members.losses_in)

    def test_others_go_on_without_a_worker_unless_the_run_is_to_end_then(self):
        for coordinator, dispensable in (({}, True), ({"on-loss": "recover"}, True),
                                         ({"on-loss": "stop"}, False)):
            worker = members_of(coordinator=coordinator).worker(0, "a:1", 0)
            self.assertEqual(worker.dispensable, dispensable, coordinator)

    def test_coordinator_says_when_the_run_has_begun_and_is_over_and_lingers_as_asked(self):
        coordinator = members_of(linger_seconds=15).coordinator()
        self.assertEqual((coordinator.serves, coordinator.linger, coordinator.begun_by,
                          coordinator.over_by), (True, 15, members.BEGUN, members.OVER))


class Worker(unittest.TestCase):
    def test_place_is_in_its_environment(self):
        member = members_of("--lr", "1", workers=2, environment={"HOME": "/h"}).worker(
            1, "127.0.0.1:5", 0)
        self.assertEqual((member.name, member.serves, member.has_bar), ("rank 1", False, False))
        self.assertEqual(member.command.argv, ["/bin/gradwire-worker", "--lr", "1"])
        self.assertEqual(member.command.environment, {
            "GRADWIRE_COORDINATOR": "127.0.0.1:5", "GRADWIRE_LOCAL_WORLD_SIZE": "2",
            "GRADWIRE_RANK": "1", "GRADWIRE_SUMMARY": "/scratch/summary-{rank}.json",
            "GRADWIRE_TOKEN_FILE": "/scratch/token", "GRADWIRE_WORLD_SIZE": "2", "HOME": "/h"})

    def test_without_a_coordinator_it_has_no_address(self):
        self.assertNotIn("GRADWIRE_COORDINATOR",
                         members_of(coordinator=None).worker(0, "", 0).command.environment)

    def test_several_ranks_are_named_and_in_its_environment(self):
        made = members_of(workers=2, world_size=5)
        first, second = (made.worker(number, "a:1", 0) for number in range(2))
        self.assertEqual((first.name, second.name), ("ranks 0-2", "ranks 3-4"))
        environment = first.command.environment
        self.assertEqual(environment["GRADWIRE_RANK"], "0,1,2")
        self.assertEqual(environment["GRADWIRE_SUMMARY"], "/scratch/summary-{rank}.json")
        self.assertEqual(environment["GRADWIRE_LOCAL_WORLD_SIZE"], "5")

    def test_log_and_addresses_differ_by_rank(self):
        differing = {"log_jsonl": "d/run.jsonl", "metrics": "127.0.0.1:9500"}
        self.assertEqual(argv_of(1, "--lr", "1", workers=2, **differing),
                         ["/bin/gradwire-worker", "--lr", "1", "--log-jsonl", "d/run.rank{rank}.jsonl",
                          "--metrics", "127.0.0.1:9501"])

    def test_workers_listen_at_ports_of_their_own(self):
        for number, options in ((0, []), (1, ["--listen", "10.0.0.1:9602"])):
            self.assertEqual(argv_of(number, workers=2, world_size=4, listen="10.0.0.1:9600"),
                             ["/bin/gradwire-worker", *options])

    def test_several_ranks_have_a_log_each_and_their_first_ones_address(self):
        differing = {"log_jsonl": "run.jsonl", "metrics": "127.0.0.1:9500"}
        self.assertEqual(argv_of(1, workers=2, world_size=4, **differing),
                         ["/bin/gradwire-worker", "--log-jsonl", "run.rank{rank}.jsonl",
                          "--metrics", "127.0.0.1:9502"])

    def test_options_of_its_ranks_come_last(self):
        options = {"world_size": 4, "rank_options": [[3, ["--seed", "3"]]]}
        self.assertEqual(argv_of(1, "--seed", "2", workers=2, **options),
                         ["/bin/gradwire-worker", "--seed", "2", "--seed", "3"])
        self.assertEqual(argv_of(0, "--seed", "2", workers=2, **options),
                         ["/bin/gradwire-worker", "--seed", "2"])

    def test_options_of_several_ranks_are_in_their_order(self):
        options = [[1, ["--seed", "1"]], [0, ["--seed", "0"]]]
        self.assertEqual(argv_of(0, workers=1, world_size=2, rank_options=options),
                         ["/bin/gradwire-worker", "--seed", "0", "--seed", "1"])

    def test_trace_has_a_file_of_its_own(self):
        self.assertEqual(
            members_of(trace="t").worker(0, "a:1", 0).command.environment["GRADWIRE_TRACE"],
            "/scratch/trace-0.json")

    def test_terminal_gives_rank_0_the_bar(self):
        made = members_of(workers=2)
        first, second = (made.worker(number, "a:1", 120) for number in range(2))
        self.assertEqual((first.has_bar, second.has_bar), (True, False))
        shown = [(member.command.environment["GRADWIRE_PROGRESS"],
                  member.command.environment["COLUMNS"]) for member in (first, second)]
        self.assertEqual(shown, [("bar", "120"), ("none", "120")])

    def test_progress_in_the_environment_is_kept(self):
        made = members_of(environment={"GRADWIRE_PROGRESS": "plain"})
        self.assertEqual(made.worker(0, "a:1", 120).command.environment["GRADWIRE_PROGRESS"],
                         "plain")

    def test_no_terminal_leaves_progress_alone(self):
        worker = members_of().worker(0, "a:1", 0)
        self.assertNotIn("GRADWIRE_PROGRESS", worker.command.environment)
        self.assertFalse(worker.has_bar)

    def test_config_of_this_machine_stays_in_its_environment(self):
        made = members_of(environment={"GRADWIRE_CONFIG": "c.ini"})
        self.assertEqual(made.worker(0, "a:1", 0).command.environment["GRADWIRE_CONFIG"], "c.ini")


class UnderMpirun(unittest.TestCase):
    def job(self, **changes):
        with mock.patch("cli.runs.mpirun.shutil.which", return_value="/bin/mpirun"):
            return members_of("--backend", "mpi", workers=2, environment={"HOME": "/h"},
                              **changes).workers_of_mpirun("a:1")

    def test_all_workers_are_one_member(self):
        job = self.job()
        self.assertEqual((job.name, job.ranks, job.dispensable, job.linger, job.ends_with_run),
                         ("mpirun", frozenset([0, 1]), False, 3, True))
        self.assertEqual(job.command.environment, {"HOME": "/h"})
        self.assertEqual(job.command.argv[0], "/bin/mpirun")
        before, first, second = " ".join(job.command.argv).split(" -np 1 ")
        self.assertIn("--tag-output", before)
        for rank, worker in enumerate((first.removesuffix(" :"), second)):
            variables, _, argv = worker.removeprefix("/usr/bin/env ").partition(" /bin/gradwire-")
            self.assertEqual(argv, "worker --backend mpi")
            self.assertIn(f"GRADWIRE_RANK={rank} ", variables)
            self.assertIn("GRADWIRE_COORDINATOR=a:1", variables)
            self.assertNotIn("HOME", variables)

    def test_options_of_a_rank_are_its_own(self):
        argv = self.job(rank_options=[[1, ["--loaders", "2"]]]).command.argv
        self.assertGreater(argv.index("--loaders"), argv.index(":"))

    def test_lines_are_labelled_by_rank(self):
        label_of = self.job().label_of
        self.assertEqual(label_of(b"[1,2]<stderr>:step 3"), (b"rank 2", b"step 3"))
        self.assertEqual(label_of(b"mpirun was unable to"), (b"", b"mpirun was unable to"))


class OnHosts(unittest.TestCase):
    """Two workers on the first host, one on the second."""

    def made(self, *arguments, **changes):
        sites = [Site("/tmp/a", range(0, 2), "link a", "10.10.1.1", cores=5),
                 Site("/tmp/b", range(2, 3), "link b", "10.10.1.2", cores=3)]
        request = {**REQUEST, "workers": 3, "world_size": 4, "coordinator": {}, **changes}
        environment = changes.pop("environment", {})
        return Members(request, list(arguments), "/scratch", environment, sites)

    def test_coordinator_listens_on_the_address_of_the_first(self):
        command = self.made().coordinator().command
        self.assertEqual(command.link, "link a")
        self.assertEqual(command.argv[1:], ["--listen", "10.10.1.1:0", "--metrics", "10.10.1.1:0",
                                            "--port-file", "/tmp/a/ports", "--aggregation-summary",
                                            "/tmp/a/aggregation.json"])

    def test_given_addresses_of_the_coordinator_win(self):
        argv = self.made(coordinator={"listen": "0.0.0.0:5"}).coordinator().command.argv
        self.assertEqual(argv[1:3], ["--listen", "0.0.0.0:5"])

    def test_worker_writes_on_its_host_and_knows_who_is_there(self):
        made = self.made(log_jsonl="run.jsonl", trace="t", environment={"GRADWIRE_CONFIG": "c"})
        command = made.worker(2, "10.10.1.1:5", 0).command
        self.assertEqual(command.link, "link b")
        self.assertEqual(command.argv[1:], ["--log-jsonl", "/tmp/b/log-{rank}.jsonl"])
        self.assertEqual(command.environment, {
            "GRADWIRE_CONFIG": "/tmp/b/config", "GRADWIRE_COORDINATOR": "10.10.1.1:5",
            "GRADWIRE_LOCAL_WORLD_SIZE": "1", "GRADWIRE_RANK": "3",
            "GRADWIRE_SUMMARY": "/tmp/b/summary-{rank}.json", "GRADWIRE_TOKEN_FILE": "/tmp/b/token",
            "GRADWIRE_TRACE": "/tmp/b/trace-2.json", "GRADWIRE_WORLD_SIZE": "4"})
        first = made.worker(0, "10.10.1.1:5", 0).command.environment
        self.assertEqual(first["GRADWIRE_LOCAL_WORLD_SIZE"], "3")  # ranks 0 and 1, and 2
        self.assertEqual(made.log_file("3"), "run.rank3.jsonl")

    def test_worker_without_a_config_has_none_on_its_host(self):
        environment = self.made().worker(2, "10.10.1.1:5", 0).command.environment
        self.assertNotIn("GRADWIRE_CONFIG", environment)

    def test_program_counts_its_rank_from_the_first_of_its_host(self):
        made = self.made(program="/bin/sh", world_size=3)
        for rank, local in ((0, "0"), (1, "1"), (2, "0")):
            environment = made.program(rank, "10.10.1.1:5").command.environment
            self.assertEqual(environment["LOCAL_RANK"], local)

    def test_hosts_with_different_numbers_of_programs_count_from_their_own_first(self):
        sites = [Site("/tmp/a", range(0, 3), "link a", "10.10.1.1", cores=5),
                 Site("/tmp/b", range(3, 5), "link b", "10.10.1.2", cores=3)]
        made = Members({**REQUEST, "program": "/bin/sh", "workers": 5, "world_size": 5,
                        "coordinator": {}}, [], "/scratch", {}, sites)
        self.assertEqual([made.program(rank, "10.10.1.1:5").command.environment["LOCAL_RANK"]
                          for rank in range(5)], ["0", "1", "2", "0", "1"])

    def test_each_program_runs_on_its_host_and_knows_how_many_are_there(self):
        made = self.made(program="/bin/sh", world_size=3)
        programs = [made.program(rank, "10.10.1.1:5") for rank in range(3)]
        self.assertEqual([program.command.link for program in programs],
                         ["link a", "link a", "link b"])
        self.assertEqual([program.command.environment["LOCAL_WORLD_SIZE"] for program in programs],
                         ["2", "2", "1"])

    def test_programs_share_the_cores_of_their_host(self):
        made = self.made(program="/bin/sh", world_size=3)
        threads = [made.program(rank, "a:5").command.environment["OMP_NUM_THREADS"]
                   for rank in range(3)]
        self.assertEqual(threads, ["2", "2", "3"])

    def test_address_that_is_all_addresses_is_reached_at_the_hosts(self):
        self.assertEqual(reachable("0.0.0.0:5", "10.10.1.1"), "10.10.1.1:5")
        self.assertEqual(reachable("10.10.1.9:5", "10.10.1.1"), "10.10.1.9:5")


class Program(unittest.TestCase):
    def test_place_is_in_its_environment(self):
        member = members_of("a", program="/bin/sh", workers=2, rank_options=[[1, ["b", "c"]]],
                            environment={"HOME": "/h", "OMP_NUM_THREADS": "7", "RANK": "9"}
                            ).program(1, "[::1]:5")
        self.assertEqual((member.name, member.serves), ("rank 1", False))
        self.assertEqual(member.command.argv, ["/bin/sh", "a", "b", "c"])
        self.assertEqual(member.command.environment, {
            "GRADWIRE_COORDINATOR": "[::1]:5", "GRADWIRE_LOCAL_RANK": "1",
            "GRADWIRE_LOCAL_WORLD_SIZE": "2", "GRADWIRE_RANK": "1",
            "GRADWIRE_TOKEN_FILE": "/scratch/token", "GRADWIRE_WORLD_SIZE": "2",
            "HOME": "/h", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "::1",
            "MASTER_PORT": "5", "OMP_NUM_THREADS": "7", "RANK": "1", "WORLD_SIZE": "2"})

    def test_more_programs_than_cores_have_a_thread_each(self):
        workers = len(os.sched_getaffinity(0)) + 1
        made = members_of(program="/bin/sh", workers=workers, environment={})
        self.assertEqual(made.program(0, "a:5").command.environment["OMP_NUM_THREADS"], "1")

    def test_program_alone_has_all_cores(self):
        made = members_of(program="/bin/sh", workers=1, world_size=1, environment={})
        self.assertEqual(made.program(0, "a:5").command.environment["OMP_NUM_THREADS"],
                         str(len(os.sched_getaffinity(0))))


class Names(unittest.TestCase):
    def test_ranks_are_dealt_evenly_and_contiguously(self):
        for workers, world_size in ((1, 1), (2, 4), (3, 8), (4, 4)):
            dealt = [members.ranks_of(worker, workers, world_size) for worker in range(workers)]
            self.assertEqual([rank for ranks in dealt for rank in ranks], [*range(world_size)])
            self.assertLessEqual(max(map(len, dealt)) - min(map(len, dealt)), 1)
            self.assertEqual([*map(len, dealt)], sorted(map(len, dealt), reverse=True))

    def test_path_has_the_rank_in_its_place(self):
        self.assertEqual(path_for_rank("a-{rank}.jsonl", "2", 4), "a-2.jsonl")
        self.assertEqual(path_for_rank("a-{rank}.jsonl", "0", 1), "a-0.jsonl")

    def test_path_without_a_place_has_it_in_front_of_its_ending(self):
        self.assertEqual(path_for_rank("a.jsonl", "{rank}", 4), "a.rank{rank}.jsonl")
        self.assertEqual(path_for_rank("d.d/a", "2", 4), "d.d/a.rank2")

    def test_path_of_a_device_or_pipe_stays(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        os.mkfifo(folder / "pipe")
        os.mkdir(folder / "logs")
        (folder / "log").touch()
        for path in ("/dev/null", "/dev/stdout", str(folder / "pipe")):
            self.assertEqual(path_for_rank(path, "1", 4), path)
        for name in ("log", "logs"):
            self.assertEqual(path_for_rank(str(folder / name), "1", 4), f"{folder}/{name}.rank1")
        self.assertEqual(argv_of(1, workers=2, log_jsonl="/dev/null"),
                         ["/bin/gradwire-worker", "--log-jsonl", "/dev/null"])

    def test_path_of_one_rank_alone_stays(self):
        self.assertEqual(path_for_rank("a.jsonl", "0", 1), "a.jsonl")

    def test_port_is_raised_by_the_rank(self):
        self.assertEqual(members.address_for_rank("[::1]:9500", 3), "[::1]:9503")
        self.assertEqual(members.address_for_rank("0.0.0.0:0", 3), "0.0.0.0:0")
        self.assertEqual(members.address_for_rank("off", 3), "off")

    def test_port_beyond_the_last_is_refused(self):
        self.assertEqual(members.address_for_rank("h:65534", 1), "h:65535")
        with self.assertRaisesRegex(Failure, r"^no port 65536 for rank 1 \(h:65535\)$") as raised:
            members.address_for_rank("h:65535", 1)
        self.assertEqual(raised.exception.exit_code, EXIT_USAGE)

    def test_all_addresses_are_reached_at_the_loopback_one(self):
        self.assertEqual(members.reachable("0.0.0.0:5"), "127.0.0.1:5")
        self.assertEqual(members.reachable("[::]:5"), "[::1]:5")
        self.assertEqual(members.reachable("10.0.0.1:5"), "10.0.0.1:5")


if __name__ == "__main__":
    unittest.main()
