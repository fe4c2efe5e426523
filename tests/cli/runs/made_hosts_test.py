"""cli/runs/made_hosts.py: hosts that the command makes itself, without making any."""
import os
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from cli.hosts import containers, namespaces
from cli.runs import made_hosts, runner
from cli.runs.failure import EXIT_USAGE, Failure
from cli.runs.machine import where

REQUEST = {"hosts": "auto", "hostfile": "", "workers": 3, "rate": "1gbit", "data_dir": "/data",
           "programs": {"worker": "/usr/bin/env"}}


def request_of(**more):
    return {**REQUEST, **more}


class FakeMade:
    """Stands in for NamespaceHosts."""
    names = ["host1", "host2", "host3"]
    addresses = ["10.10.1.1", "10.10.1.2", "10.10.1.3"]

    def __init__(self):
        self.calls = []

    def up(self):
        self.calls.append("up")

    def down(self):
        self.calls.append("down")

    def shape(self, rate):
        self.calls.append(rate)

    def command(self, host, argv):
        return [f"/on-{host}", *argv]

    def memory_group(self, host):
        return f"/group-{host}"


class MadeHostsTest(unittest.TestCase):
    def hosts(self, made, problem=""):
        with mock.patch.object(made_hosts, "hosts_like", lambda request: (made, problem)):
            return runner.hosts_of(request_of(), lambda: None)

    def test_commands_of_a_host_have_the_limit_of_its_memory(self):
        self.assertEqual(self.hosts(FakeMade()).command(3, ["x"]).memory_group, "/group-0")

    def test_they_are_there_within_with_even_if_that_fails(self):
        made = FakeMade()
        with self.assertRaises(ZeroDivisionError), self.hosts(made):
            raise ZeroDivisionError
        self.assertEqual(made.calls, ["up", "1gbit", "down"])

    def test_one_that_cannot_be_made_leaves_none_and_is_named(self):
        made = FakeMade()
        made.up = mock.Mock(side_effect=Failure("ip link add: operation not permitted"))
        with self.assertRaisesRegex(Failure, "^--hosts auto: ip link add: operation not"):
            self.hosts(made).__enter__()
        self.assertEqual(made.calls, ["down"])

    def test_coordinator_is_on_the_first(self):
        hosts = self.hosts(FakeMade())
        self.assertEqual(hosts.count, 4)
        self.assertEqual([hosts.address(host) for host in range(4)],
                         ["10.10.1.1", "10.10.1.2", "10.10.1.3", "10.10.1.1"])
        self.assertEqual(hosts.command(3, ["x"]).argv, ["/on-0", "x"])
        self.assertEqual(hosts.machines, {"host1": 0})

    def test_programs_get_no_settings_of_the_shell(self):
        with mock.patch.dict(os.environ, {"GRADWIRE_RANK": "7"}):
            environment = self.hosts(FakeMade()).command(1, ["x"], {"A": "b"}).environment
        self.assertEqual(environment["A"], "b")
        self.assertNotIn("GRADWIRE_RANK", environment)

    def test_links_are_shaped_anew_for_another_rate_alone(self):
        made = FakeMade()
        with self.hosts(made) as hosts:
            for rate in ("1gbit", "none", "none", "1gbit"):
                hosts.shape(rate)
        self.assertEqual(made.calls, ["up", "1gbit", "none", "1gbit", "down"])

    def test_without_root_it_says_what_to_do(self):
        for name, module in (("auto", namespaces), ("podman", containers)):
            with mock.patch.object(os, "geteuid", lambda: 1000), \
                    mock.patch.object(module.shutil, "which", lambda program: program), \
                    self.assertRaises(Failure) as raised:
                runner.hosts_of(request_of(hosts=name), lambda: None)
            self.assertEqual(raised.exception.exit_code, EXIT_USAGE)
            self.assertRegex(str(raised.exception), (
                f"^--hosts {name}: only root can make network namespaces; run it as root on "
                "Linux, name existing hosts with --hostfile, or leave out --hosts$"))

    def test_missing_programs_are_named(self):
        with mock.patch.object(containers.shutil, "which",
                               lambda program: None if program == "runc" else program):
            self.assertEqual(containers.why_no_containers(),
                             "no runc: apt-get install podman runc")

    def test_containers_share_cores_and_memory_of_the_machine(self):
        with mock.patch.object(made_hosts, "ContainerHosts") as made, \
                mock.patch.object(made_hosts, "why_no_containers", lambda: ""), \
                mock.patch.object(made_hosts, "machine", lambda: {"memory": 12 << 30}), \
                mock.patch.object(os, "sched_getaffinity", lambda pid: range(7)):
            runner.hosts_of(request_of(hosts="podman", threads=4), lambda: None)
            self.assertEqual(made.call_args.args[:3], (3, 4, 4 << 30))
            for more, cores in (({}, 2), ({"cores": 3}, 1)):  # limited by a container
                runner.hosts_of(request_of(hosts="podman", **more), lambda: None)
                self.assertEqual(made.call_args.args[:3], (3, cores, 4 << 30))
            runner.hosts_of(request_of(hosts="podman", memory_left=6 << 30), lambda: None)
            self.assertEqual(made.call_args.args[2], 2 << 30)
        self.assertLessEqual({"/usr/bin", "/"}, {*made.call_args.args[3]})

    def test_hosts_find_programs_data_and_the_working_folder(self):
        with mock.patch.object(os, "getcwd", lambda: "/etc"):
            self.assertEqual(made_hosts.folders_of(request_of(
                programs={"worker": "/usr/bin/env", "peers": "/usr/lib"}, data_dir="/usr/share")),
                ["/etc", "/usr/bin", "/usr/lib", "/usr/share"])

    def test_containers_get_the_folders_that_are_mounts(self):
        self.assertEqual(containers.volumes(["/", "/proc"]), ["--volume", "/proc:/proc:ro"])

    def test_host_has_a_core_at_least(self):
        self.assertEqual([made_hosts.cores_of_host(4, cores) for cores in (1, 4, 9)], [1, 1, 2])

    def test_script_without_a_coordinator_gets_the_hosts_alone(self):
        with mock.patch.object(made_hosts, "hosts_like", lambda request: (FakeMade(), "")):
            hosts = made_hosts.MadeHosts.alike("auto", 3, "none", lambda: None)
        self.assertEqual((hosts.count, hosts.command(2, ["x"]).argv), (3, ["/on-2", "x"]))
        driven = made_hosts.MadeHosts.alike("/x", 3, "none", lambda: None)
        self.assertEqual(driven.command(2, ["y"]).argv, ["/x", "run", "2", "y"])

    def test_report_says_what_the_hosts_are(self):
        self.assertEqual(where(request_of()),
                         "3 network namespaces on this machine (--hosts auto)")
        self.assertEqual(where(request_of(hosts="podman")),
                         "3 containers on this machine (--hosts podman)")
        self.assertEqual(where(request_of(hosts="/x")), "a host for each rank")
        self.assertEqual(where(request_of(hosts="")), "all processes on this machine")


if __name__ == "__main__":
    unittest.main()
