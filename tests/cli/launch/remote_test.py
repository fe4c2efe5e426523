"""cli/launch/remote.py: what is looked at on hosts before a run, and what comes back from them."""
import contextlib
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.launch import remote
from cli.launch.members import Members, Site
from cli.launch.remote import Fetched, LaunchHosts, environment_there, folder_of
from cli.runs.failure import EXIT_USAGE, Failure
from fakes import REQUEST, FakeSupervisor, Lost

GOOD = {"version": "gradwire 1", "version_problem": "", "missing": [], "from": {}, "sizes": {},
        "cores": 4, "free": 1 << 30, "temporary": "/tmp"}


class FakeLink:
    """A host that has answered."""

    def __init__(self, name, *_):
        self.name, self.folder = name, f"/tmp/{name}"
        self.lost = self.problem = ""
        self.ready, self.forgotten = True, False

    def forget_logs(self):
        self.forgotten = True


class FakeProcess:
    def __init__(self, status=0, out=b""):
        self.status, self.out = status, bytearray(out)
        self.signals = []

    @property
    def ended(self):
        return self.status is not None

    def signal(self, number):
        self.signals.append(number)


class Supervisor(FakeSupervisor):
    """Has the files of the hosts, and answers for the programs there."""

    def __init__(self):
        super().__init__()
        self.files = {}  # "host:path"
        self.missing = FakeProcess(1)  # what one becomes that reads another file
        self.commands = []

    def add(self, command, on_out=None):
        self.commands.append(command)
        content = self.files.get(f"{command.link.name}:{command.argv[-1]}")
        if content is None:
            return self.missing
        if on_out:
            on_out(content)
        return FakeProcess(0, content)


class OnHosts(unittest.TestCase):
    """Two hosts, a and b, with a worker each."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.hostfile = self.folder / "hosts"
        self.hostfile.write_text("a\nb\n")
        self.supervisor = Supervisor()
        self.facts = [self.facts_of(f"10.0.0.{place}") for place in (1, 2)]
        self.asked = []
        for name, value in (("find_ssh", lambda: "/bin/ssh"), ("Link", FakeLink),
                            ("addresses_of", lambda lines: ["10.0.0.1", "10.0.0.2"]),
                            ("ask_all", self.answer),
                            ("version_of", lambda program: ("gradwire 1", ""))):
            self.enterContext(mock.patch.object(remote, name, value))

    @staticmethod
    def facts_of(address):
        return {**GOOD, "held": [address], "interfaces": [["eth0", address, 24, 1500]]}

    def answer(self, _processes, _links, questions, wait, _seconds):
        wait(lambda: True, 0)
        self.asked.append(questions)
        return self.facts

    def hosts(self, **changes):
        return LaunchHosts({**REQUEST, "hostfile": str(self.hostfile), "coordinator": {},
                            **changes}, self.supervisor)


class Prepare(OnHosts):
    def assert_refused(self, message, **changes):
        with self.assertRaises(Failure) as told:
            self.hosts(**changes).prepare([])
        self.assertIn(message, str(told.exception))
        return told.exception.exit_code

    def test_sites_are_the_hosts_with_their_workers_and_folders(self):
        sites = self.hosts(workers=2).prepare([])
        self.assertEqual([(site.scratch, site.workers, site.address, site.cores) for site in sites],
                         [("/tmp/a", range(0, 1), "10.0.0.1", 4),
                          ("/tmp/b", range(1, 2), "10.0.0.2", 4)])

    def test_hosts_are_asked_for_what_the_run_needs(self):
        for facts in self.facts:
            facts["sizes"] = {"/w": 9}
        self.hosts(dataset="cifar10", data_dir="/d", weights="/w").prepare([])
        (asked,) = self.asked
        addresses = ["10.0.0.1", "10.0.0.2"]
        self.assertEqual((asked["folder"], asked["files"], asked["holds"], asked["towards"],
                          asked["programs"]),
                         ("/d", ["/w"], addresses, addresses,
                          ["/bin/gradwire-worker", "/bin/gradwire-coordinator"]))

    def test_without_weights_and_data_hosts_are_asked_for_none(self):
        self.hosts().prepare([])
        (asked,) = self.asked
        self.assertEqual((asked["folder"], asked["files"]), ("", []))

    def test_all_that_is_wrong_is_told_at_once(self):
        self.facts[0]["version"] = "gradwire 0"
        self.facts[1]["missing"] = ["/bin/gradwire-worker"]
        with self.assertRaises(Failure) as told:
            self.hosts().prepare([])
        lines = str(told.exception).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertIn("host a: got version 'gradwire 0'", lines[0])
        self.assertIn("host b: no '/bin/gradwire-worker'", lines[1])
        self.assertIn("nothing was started", lines[2])
        self.assertEqual(told.exception.exit_code, EXIT_USAGE)
        self.assertEqual(self.supervisor.started, [])

    def test_each_check_of_the_hosts_is_made_before_a_run(self):
        data = {"files": {}, "count": 0, "bytes": 0, "problem": "", "sum": ""}
        control = [["eth0", "8.8.8.2", 24, 1500], ["eth1", "192.168.7.2", 24, 1500]]
        for changes, said, more in (
                ({"version_problem": "no such file"}, "host b: no such file", {}),
                ({"held": []}, "host b: its name means 10.0.0.2 here", {}),
                ({"interfaces": [["eth0", "10.0.0.2", 16, 1500], ["eth1", "10.0.0.9", 24, 1500]]},
                 "host b: its name means 10.0.0.2, in network 10.0.0.0/16", {}),
                ({"from": {"10.0.0.1": ""}}, "host b: no route to 10.0.0.1", {}),
                ({"free": 1}, "host b: got 0 MiB free in /tmp", {}),
                ({"sizes": {"/w": None}}, "host b: no '/w'", {"weights": "/w"}),
                ({"data": data}, "host b: '/d': no files", {"dataset": "mnist", "data_dir": "/d"})):
            found = {"sizes": {"/w": 9}, "data": {**data, "count": 1, "sum": "a"}} if more else {}
            self.facts = [{**self.facts_of(f"10.0.0.{place}"), **found} for place in (1, 2)]
            self.facts[1].update(changes)
            with self.subTest(said):
                self.assertEqual(self.assert_refused(said, **more), EXIT_USAGE)
        self.facts = [self.facts_of("8.8.8.1"), {**self.facts_of("8.8.8.2"), "interfaces": control}]
        self.facts[0]["interfaces"].append(["eth1", "192.168.7.1", 24, 1500])
        with mock.patch.object(remote, "addresses_of", lambda lines: ["8.8.8.1", "8.8.8.2"]):
            self.assert_refused("host b: its name means 8.8.8.2, in the control network")

    def test_every_host_gets_the_token_of_the_file(self):
        token = self.folder / "token"
        token.write_text("a-secret-of-some-length\n")
        self.supervisor.missing = FakeProcess(0)
        self.hosts(token_file=str(token)).prepare([])
        self.assertEqual([(command.link.name, command.argv[-1], command.stdin)
                          for command in self.supervisor.commands],
                         [("a", "/tmp/a/token", "a-secret-of-some-length"),
                          ("b", "/tmp/b/token", "a-secret-of-some-length")])

    def test_host_that_is_lost_is_told_before_any_question(self):
        hosts = self.hosts()
        hosts._links[1].lost = "host b: was silent"
        with self.assertRaisesRegex(Failure, "^host b: was silent$"):
            hosts.prepare([])
        self.assertEqual(self.asked, [])

    def test_it_waits_until_every_host_has_answered_or_is_lost(self):
        for ready, lost, done in ((False, "", False), (True, "", True), (False, "host b: gone", True)):
            hosts, waited = self.hosts(), []
            hosts._links[1].ready, hosts._links[1].lost = ready, lost
            with mock.patch.object(self.supervisor, "wait_for",
                                   lambda ready, _: waited.append(ready()) or True), \
                    contextlib.suppress(Failure):
                hosts.prepare([])
            self.assertEqual(waited[0], done)

    def test_signal_while_it_waits_stops_it(self):
        self.supervisor.signalled = 15
        self.assertEqual(self.assert_refused("stopped"), 128 + 15)

    def test_network_says_which_addresses_are_used(self):
        sites = self.hosts(network="10.0.0.0/24").prepare([])
        self.assertEqual([site.address for site in sites], ["10.0.0.1", "10.0.0.2"])
        self.facts[1]["interfaces"] = [["eth0", "10.0.1.2", 24, 1500]]
        self.assert_refused("host b: no address in 10.0.0.0/24, expected one (--network)",
                            network="10.0.0.0/24")

    def test_coordinator_is_on_the_first_host(self):
        for network in ("", "10.0.0.0/24"):
            hosts = self.hosts(network=network)
            hosts.prepare([])
            self.assertEqual(hosts.coordinator_address, "10.0.0.1")

    def test_program_is_known_by_its_whole_path_on_every_host(self):
        for program, expected in (("train", os.path.abspath("train")), ("/b/train", "/b/train"),
                                  ("", "")):
            hosts = self.hosts(program=program)
            hosts.prepare([])
            self.assertEqual(hosts.request["program"], expected)
            self.assertEqual(self.asked[-1]["programs"][0], expected or "/bin/gradwire-worker")

    def test_network_needs_no_addresses_of_names(self):
        for facts in self.facts:
            facts["held"] = []
        with mock.patch.object(remote, "addresses_of", side_effect=Failure("line 1: no address")):
            sites = self.hosts(network="10.0.0.0/24").prepare([])
        self.assertEqual([site.address for site in sites], ["10.0.0.1", "10.0.0.2"])

    def test_nothing_starts_before_every_host_has_its_files(self):
        self.supervisor.files["a:/tmp/a/token"] = b""
        for status in (None, 0):
            self.supervisor.missing, waited = FakeProcess(status), []
            with mock.patch.object(self.supervisor, "wait_for",
                                   lambda ready, _: waited.append(ready()) or True):
                self.hosts().prepare([])
            self.assertEqual(waited[-1], status == 0)

    def test_address_of_this_machine_alone_is_no_place_to_listen(self):
        for listen in ("127.0.0.1:0", "localhost:7", "[::1]:7"):
            self.assert_refused(f"--listen: got {listen}, where other hosts cannot reach it",
                                coordinator={"listen": listen})
        self.hosts(coordinator={"listen": "0.0.0.0:7"}).prepare([])
        self.hosts(coordinator=None).prepare([])

    def test_one_host_may_listen_to_itself(self):
        self.hostfile.write_text("a slots=2\n")
        self.facts = self.facts[:1]
        with mock.patch.object(remote, "addresses_of", lambda lines: ["10.0.0.1"]):
            self.hosts(coordinator={"listen": "127.0.0.1:0"}).prepare([])

    def test_config_is_sent_to_every_host(self):
        config = self.folder / "run.ini"
        config.write_text("lr = 1\n")
        self.supervisor.missing = FakeProcess(0)
        self.hosts(config=str(config)).prepare([])
        sent = [(command.link.name, command.argv[-1], command.stdin)
                for command in self.supervisor.commands if not command.argv[-1].endswith("/token")]
        self.assertEqual(sent, [("a", "/tmp/a/config", "lr = 1\n"),
                                ("b", "/tmp/b/config", "lr = 1\n")])

    def test_failure_of_names_is_of_the_hostfile(self):
        with mock.patch.object(remote, "addresses_of", side_effect=Failure("line 1: no address")):
            with self.assertRaisesRegex(Failure, f"^--hostfile: {self.hostfile}: line 1: no"):
                self.hosts()


class Coordinator(OnHosts):
    """What it says on its host of where it listens."""

    def setUp(self):
        super().setUp()
        self.started = self.hosts()

    def test_addresses_come_from_its_port_file(self):
        self.supervisor.files["a:/p"] = b"grpc=10.0.0.1:7\nmetrics=10.0.0.1:8\n"
        self.assertEqual(self.started.bound_addresses("/p", 1),
                         {"grpc": "10.0.0.1:7", "metrics": "10.0.0.1:8"})

    def test_port_file_that_was_asked_for_is_here_too(self):
        wanted = self.folder / "ports"
        self.supervisor.files["a:/p"] = b"grpc=10.0.0.1:7\n"
        self.hosts(coordinator={"listen": "x", "port-file": str(wanted)}).bound_addresses("/p", 1)
        self.assertEqual(wanted.read_text(), "grpc=10.0.0.1:7\n")

    def test_none_in_time_names_file_and_host(self):
        self.supervisor.missing = FakeProcess(None)
        with self.assertRaisesRegex(Failure, "wrote no address to '/p' on host a within 9 s$"):
            self.started.bound_addresses("/p", 9)
        self.assertEqual(self.supervisor.missing.signals, [9])


class Collect(OnHosts):
    def collect(self, cause="", **changes):
        self.started = self.hosts(log_jsonl=str(self.folder / "run.jsonl"), **changes)
        sites = self.started.prepare([])
        members = Members(self.started.request, [], self.folder, {}, sites)
        self.started.collect(members, cause)

    def put(self, host, name, text=b"{}"):
        self.supervisor.files[f"{host}:/tmp/{host}/{name}"] = text

    def names(self):
        return sorted(path.name for path in self.folder.iterdir() if path != self.hostfile)

    def all_well(self):
        for rank, host in enumerate("ab"):
            self.put(host, f"summary-{rank}.json")
            self.put(host, f"log-{rank}.jsonl", b"line %d\n" % rank)

    def test_files_of_a_run_that_failed_are_not_waited_for_as_long(self):
        waits = []
        self.all_well()
        for cause in ("", "rank 0 was lost"):
            with mock.patch.object(self.supervisor, "wait_for",
                                   lambda ready, seconds: waits.append(seconds) or ready()):
                self.collect(cause)
        self.assertEqual(waits[-1], remote.SECONDS_TO_COLLECT_AFTER_FAILURE)
        self.assertIn(remote.SECONDS_TO_COLLECT, waits)

    def test_it_waits_for_all_files(self):
        for rest, done in ((FakeProcess(None), False), (FakeProcess(1), True)):
            self.supervisor.missing, waited = rest, []
            self.put("a", "log-0.jsonl", b"line 0\n")
            with mock.patch.object(self.supervisor, "wait_for",
                                   lambda ready, _: waited.append(ready()) or True), \
                    contextlib.suppress(Failure):
                self.collect()
            self.assertEqual(waited[-1], done)

    def test_summaries_and_logs_come_from_where_their_ranks_were(self):
        self.all_well()
        self.collect()
        self.assertEqual(self.names(), ["run.rank0.jsonl", "run.rank1.jsonl", "summary-0.json",
                                        "summary-1.json"])
        self.assertEqual((self.folder / "run.rank1.jsonl").read_bytes(), b"line 1\n")
        self.assertTrue(all(link.forgotten for link in self.started._links))

    def test_log_that_is_missing_is_named_and_stays(self):
        self.all_well()
        del self.supervisor.files["b:/tmp/b/log-1.jsonl"]
        with self.assertRaisesRegex(
                Failure, "^a log is still on host b: /tmp/b/log-1.jsonl$"):
            self.collect()
        self.assertEqual([link.forgotten for link in self.started._links], [True, False])
        self.assertNotIn("run.rank1.jsonl", self.names())

    def test_after_a_failure_a_log_that_never_was_is_no_news(self):
        self.collect(cause="rank 0 failed")
        self.assertEqual(self.names(), [])

    def test_after_a_failure_a_log_that_may_be_there_is(self):
        self.supervisor.missing = FakeProcess(None)
        with self.assertRaisesRegex(Failure, "host a: /tmp/a/log-0.jsonl; a log .* host b: "):
            self.collect(cause="rank 0 failed")
        self.assertIn(9, self.supervisor.missing.signals)

    def test_after_a_failure_a_log_on_a_host_that_was_lost_is_named(self):
        self.put("a", "log-0.jsonl", b"line 0\n")
        started = self.hosts(log_jsonl=str(self.folder / "run.jsonl"))
        members = Members(started.request, [], self.folder, {}, started.prepare([]))
        started._links[1].lost = "host b: was silent for 10 s"
        with self.assertRaisesRegex(Failure, "^a log is still on host b: /tmp/b/log-1.jsonl$"):
            started.collect(members, "rank 1 was lost")
        self.assertEqual([link.forgotten for link in started._links], [True, False])

    def log_of(self, first, last):
        return b"".join(b'{"step":%d}\n' % step for step in range(first, last + 1))

    def logs_here(self):
        return [(self.folder / f"run.rank{rank}.jsonl").read_bytes() for rank in range(2)]

    def put_earlier_logs(self):
        for rank in range(2):
            (self.folder / f"run.rank{rank}.jsonl").write_bytes(self.log_of(0, 3))

    def test_log_of_a_resumed_run_stands_behind_that_of_the_earlier_start(self):
        self.put_earlier_logs()
        for rank, host in enumerate("ab"):
            self.put(host, f"log-{rank}.jsonl", b'{"recovery": {}}\n' + self.log_of(2, 5))
        self.collect()
        self.assertEqual(self.logs_here(),
                         [self.log_of(0, 3) + b'{"recovery": {}}\n' + self.log_of(2, 5)] * 2)

    def test_log_of_a_run_that_began_anew_replaces_an_earlier_one(self):
        self.put_earlier_logs()
        for rank, host in enumerate("ab"):
            self.put(host, f"log-{rank}.jsonl", self.log_of(0, 1))
        self.collect()
        self.assertEqual(self.logs_here(), [self.log_of(0, 1)] * 2)

    def test_log_of_a_run_that_began_anew_replaces_an_earlier_one_also_after_a_loss(self):
        self.put_earlier_logs()
        self.supervisor.lost = [Lost("rank 1", "was lost")]
        self.put("a", "log-0.jsonl", self.log_of(0, 5))
        self.put("b", "log-1.jsonl", self.log_of(0, 2))
        self.put("a", "log-1.jsonl", self.log_of(3, 5))
        self.collect()
        self.assertEqual(self.logs_here(), [self.log_of(0, 5)] * 2)

    def test_log_without_a_step_is_of_a_run_that_began_anew(self):
        self.put_earlier_logs()
        for rank, host in enumerate("ab"):
            self.put(host, f"log-{rank}.jsonl", b'{"recovery": {}}\n')
        self.collect()
        self.assertEqual(self.logs_here(), [b'{"recovery": {}}\n'] * 2)

    def test_start_that_trained_nothing_leaves_an_earlier_log(self):
        for text, cause in ((b"", ""), (None, "the coordinator failed")):
            self.put_earlier_logs()
            self.supervisor.files.clear()
            for rank, host in enumerate("ab"):
                if text is not None:
                    self.put(host, f"log-{rank}.jsonl", text)
            self.collect(cause)
            self.assertEqual(self.logs_here(), [self.log_of(0, 3)] * 2)

    def test_earlier_log_of_a_rank_stays_beside_a_resumed_run_and_goes_beside_a_new_one(self):
        for first, names in ((2, ["run.rank0.jsonl", "run.rank1.jsonl"]), (0, ["run.rank0.jsonl"])):
            self.put_earlier_logs()
            self.put("a", "log-0.jsonl", self.log_of(first, 5))
            self.collect("rank 1 failed")
            self.assertEqual(self.names(), names)

    def test_parts_of_a_log_are_in_the_order_of_their_steps(self):
        self.hostfile.write_text("c\nb\na\n")
        self.facts.append(self.facts_of("10.0.0.3"))
        self.enterContext(mock.patch.object(
            remote, "addresses_of", lambda lines: [f"10.0.0.{place}" for place in (1, 2, 3)]))
        self.supervisor.lost = [Lost("rank 1", "was lost"), Lost("rank 2", "was lost")]
        self.put("c", "log-0.jsonl", self.log_of(0, 9))
        for host, first, last in (("b", 0, 2), ("c", 6, 9), ("a", 3, 5)):
            self.put(host, "log-1.jsonl", self.log_of(first, last))
        self.put("a", "log-2.jsonl", self.log_of(0, 5))
        with contextlib.suppress(Failure):
            self.collect(workers=3, world_size=3)
        self.assertEqual((self.folder / "run.rank1.jsonl").read_bytes(), self.log_of(0, 9))

    def test_disk_that_is_full_here_leaves_the_log_there_and_hides_nothing_else(self):
        self.all_well()
        (self.folder / "run.rank1.jsonl").symlink_to("/dev/full")
        with self.assertRaisesRegex(
                Failure, r"^a log is still on host b: /tmp/b/log-1.jsonl \(cannot write .*"
                         r"run.rank1.jsonl: no space left on device\)$"):
            self.collect()
        self.assertEqual([link.forgotten for link in self.started._links], [True, False])
        self.assertEqual((self.folder / "run.rank0.jsonl").read_bytes(), b"line 0\n")
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b"{}")

    def test_log_for_which_there_is_no_room_stays_there_also_after_a_failure_or_a_loss(self):
        self.all_well()
        self.put("a", "log-1.jsonl", b"line 1 again\n")
        (self.folder / "run.rank1.jsonl").symlink_to("/dev/full")
        for lost, cause, there in (([], "rank 0 failed", "host b: /tmp/b/log-1.jsonl .*"),
                                   ([Lost("rank 1", "was lost")], "rank 0 failed",
                                    "host b: /tmp/b/log-1.jsonl .* host a: /tmp/a/log-1.jsonl .*")):
            self.supervisor.lost = lost
            with self.assertRaisesRegex(Failure, f"^a log is still on {there}no space left on device"):
                self.collect(cause)
            self.assertEqual([link.forgotten for link in self.started._links], [not lost, False])

    def test_only_files_that_such_a_launch_writes_are_asked_for(self):
        coordinator, program = {"listen": "0.0.0.0:0"}, {"program": "/bin/train"}
        summaries, traces = [("a", "summary-0.json"), ("b", "summary-1.json")], [("a", "trace-0.json"),
                                                                                 ("b", "trace-1.json")]
        for changes, files in (
                ({"coordinator": coordinator}, [*summaries, ("a", "aggregation.json")]),
                ({"coordinator": None}, summaries),
                ({"coordinator": None, "trace": "t"}, [*summaries, *traces]),
                ({"coordinator": coordinator, "log_jsonl": "l", **program}, []),
                ({"coordinator": coordinator, "trace": "t", **program},
                 [*traces, ("a", "trace-2.json")])):
            started = self.hosts(**changes)
            members = Members(started.request, [], self.folder, {}, started.prepare([]))
            wanted = [*started._wanted(members)]
            self.assertEqual(sorted((site.link.name, os.path.basename(there))
                                    for site, there, *_ in wanted), sorted(files), changes)
            self.assertFalse(any(adopted for *_, adopted in wanted))

    def test_room_that_ends_while_files_come_is_told_for_each(self):
        self.all_well()
        for number in range(4):
            (self.folder / f"fetched-{number}").symlink_to("/dev/full")
        with self.assertRaises(Failure) as told:
            self.collect()
        said = str(told.exception)
        for part in ("/tmp/a/summary-0.json of host a is lost", "no space left on device",
                     "a log is still on host a: /tmp/a/log-0.jsonl (cannot write "):
            self.assertIn(part, said)
        self.assertEqual([link.forgotten for link in self.started._links], [False, False])

    def test_traces_come_from_where_their_workers_were_and_the_coordinators_from_the_first(self):
        self.all_well()
        for host, name in (("a", "trace-0.json"), ("b", "trace-1.json"), ("a", "trace-2.json")):
            self.put(host, name, name.encode())
        self.collect(trace="t", coordinator={"listen": "0.0.0.0:0"})
        for number in range(3):
            self.assertEqual((self.folder / f"trace-{number}.json").read_text(),
                             f"trace-{number}.json")

    def test_ranks_of_a_worker_have_a_file_each_and_workers_a_trace(self):
        owners = {"a": (0, 1), "b": (2,)}
        for host, ranks in owners.items():
            for rank in ranks:
                self.put(host, f"summary-{rank}.json", b'{"rank": %d}' % rank)
                self.put(host, f"log-{rank}.jsonl", b"line %d\n" % rank)
        for host, number in (("a", 0), ("b", 1), ("a", 2)):
            self.put(host, f"trace-{number}.json")
        self.collect(world_size=3, trace="t", coordinator={"listen": "0.0.0.0:0"})
        self.assertEqual(self.names(), [f"{name}{number}.{ending}" for name, ending in (
            ("run.rank", "jsonl"), ("summary-", "json"), ("trace-", "json")) for number in range(3)])
        self.assertEqual((self.folder / "summary-2.json").read_bytes(), b'{"rank": 2}')

    def test_all_ranks_of_a_lost_worker_are_asked_for_on_every_host(self):
        for rank, host in enumerate("aabb"):
            self.put(host, f"summary-{rank}.json", b'{"ended": {"code": 1}}')
            self.put(host, f"log-{rank}.jsonl", b"first %d\n" % rank)
        for rank in (2, 3):
            self.put("a", f"summary-{rank}.json", b'{"of": "a"}')
            self.put("a", f"log-{rank}.jsonl", b"then %d\n" % rank)
        self.supervisor.lost = [Lost("ranks 2-3", "was lost")]
        self.collect(world_size=4)
        for rank in (2, 3):
            self.assertEqual((self.folder / f"run.rank{rank}.jsonl").read_text(),
                             f"first {rank}\nthen {rank}\n")
            self.assertEqual((self.folder / f"summary-{rank}.json").read_bytes(), b'{"of": "a"}')
        self.assertEqual((self.folder / "run.rank1.jsonl").read_text(), "first 1\n")

    def test_what_the_coordinator_did_is_on_the_first_host(self):
        self.all_well()
        self.put("a", "aggregation.json", b"{}")
        self.collect(coordinator={"listen": "0.0.0.0:0"})
        self.assertEqual((self.folder / "aggregation.json").read_bytes(), b"{}")

    def test_what_others_went_on_with_stands_behind_what_was_said_before(self):
        self.all_well()
        self.supervisor.lost = [Lost("rank 1", "was lost")]
        self.put("b", "summary-1.json", b'{"ended": {"code": 1}}')
        self.put("a", "log-1.jsonl", b"line 1 again\n")
        self.put("a", "summary-1.json", b'{"of": "a"}')
        self.collect()
        self.assertEqual((self.folder / "run.rank1.jsonl").read_bytes(), b"line 1\nline 1 again\n")
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b'{"of": "a"}')
        self.assertEqual(len(self.names()), 4)

    def test_summary_of_one_that_ended_early_replaces_no_whole_one(self):
        self.all_well()
        self.supervisor.lost = [Lost("rank 1", "was lost")]
        self.put("a", "summary-1.json", b'{"ended": {"code": 1}}')
        self.collect()
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b"{}")
        self.assertEqual(len(self.names()), 4)

    def test_summary_of_the_last_one_that_ended_early_replaces_an_earlier_one_of_its_kind(self):
        self.all_well()
        self.supervisor.lost = [Lost("rank 1", "was lost")]
        self.put("b", "summary-1.json", b'{"ended": {"code": 1}}')
        self.put("a", "summary-1.json", b'{"ended": {"code": 2}}')
        self.collect()
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b'{"ended": {"code": 2}}')

    def test_summary_of_the_last_one_replaces_a_whole_one_too(self):
        self.all_well()
        self.supervisor.lost = [Lost("rank 1", "was lost")]
        self.put("a", "summary-1.json", b'{"of": "a"}')
        self.collect()
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b'{"of": "a"}')
        self.assertEqual(len(self.names()), 4)

    def test_without_a_loss_nobody_is_asked_for_others_ranks(self):
        self.all_well()
        self.put("a", "summary-1.json", b'{"of": "a"}')
        self.collect()
        self.assertEqual((self.folder / "summary-1.json").read_bytes(), b"{}")


class Parts(unittest.TestCase):
    def test_hosts_get_variables_of_ours_and_of_what_computes(self):
        given = {"GRADWIRE_SEED": "1", "OMP_NUM_THREADS": "2", "NO_COLOR": "1", "HOME": "/root",
                 "MY_GRADWIRE_X": "3"}
        with mock.patch.dict(os.environ, given, clear=True):
            self.assertEqual(environment_there(),
                             {"GRADWIRE_SEED": "1", "OMP_NUM_THREADS": "2", "NO_COLOR": "1"})

    def test_folder_is_given_usual_or_none(self):
        for dataset, given, expected in (
                ("synthetic", "/d", ""), ("synthetic-tokens", "", ""), ("cifar10", "/d", "/d"),
                ("cifar10", "", ""), ("fashion-mnist", "", "/usr/share/datasets/fashion-mnist"),
                ("fashion-mnist", "/d", "/d")):
            self.assertEqual(folder_of({"dataset": dataset, "data_dir": given}), expected)

    def test_log_is_what_its_name_says(self):
        for there, is_log in (("/tmp/log-0.jsonl", True), ("/tmp/summary-0.json", False)):
            self.assertEqual(Fetched("/no/part", None, there, "", False).is_log, is_log)

    def test_summary_of_an_early_end_replaces_that_of_an_earlier_run(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        part, here = folder / "part", folder / "here"
        for adopted, expected in ((True, "{}"), (False, '{"ended": {"code": 1}}')):
            here.write_text("{}")
            fetched = Fetched(str(part), None, "/summary-0.json", str(here), adopted)
            fetched.take(b'{"ended": {"code": 1}}')
            fetched.process = FakeProcess()
            fetched.close()
            fetched.put()
            self.assertEqual(here.read_text(), expected)

    def test_first_problem_of_a_file_counts_and_no_action_follows(self):
        fetched = Fetched("/dev/full", None, "/log-0.jsonl", "/no/here", False)
        fetched.process = FakeProcess()
        fetched.take(bytes(1 << 20))
        self.assertEqual(fetched.problem, "cannot write /dev/full: no space left on device")
        with contextlib.suppress(OSError):
            fetched._file.close()
        fetched = Fetched("/no/part", None, "/log-0.jsonl", "/no/here", False)
        fetched.process = FakeProcess()
        fetched.take(b"x")
        fetched.put()
        self.assertEqual(fetched.problem, "cannot write /no/part: no such file or directory")
        self.assertFalse(fetched.is_complete)

    def test_step_of_a_line_is_a_whole_number_or_none(self):
        for line, step in ((b'{"step": 3}\n', 3), (b'{"step": "3"}\n', None), (b"[3]\n", None),
                           (b'{"recovery": {}}\n', None), (b'{"step"\n', None)):
            self.assertEqual(remote.step_of(line), step)

    def test_site_here_has_its_files_side_by_side(self):
        site = Site("/s", range(1))
        self.assertEqual((site.summary_file(2), site.trace_file(1), site.log_file("{rank}")),
                         ("/s/summary-2.json", "/s/trace-1.json", "/s/log-{rank}.jsonl"))


if __name__ == "__main__":
    unittest.main()
