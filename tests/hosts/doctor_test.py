"""`gradwire doctor`: ten things that stand in the way of a run, staged on hosts of namespaces."""
import pathlib
import re
import unittest

from reachable_hosts import BIN, ReachableHosts

FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
LATE = 3  # host with a clock of its own
RATE = "50mbit"  # so little that other tests beside this one do not slow it down
TENTH = "5mbit"


class DoctorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(ReachableHosts(3))
        cls.data = cls.hosts.folder / "data"
        cls.data.mkdir()
        (cls.data / "batch.bin").write_bytes(b"x" * 100)
        for host in range(3):
            cls.hosts.limit_rate(host, RATE)

    def doctor(self, *words, lines=()):
        return self.hosts.gradwire("doctor", "--hostfile", self.hosts.hostfile(*lines),
                                   "--data-dir", self.data, *words)

    def assert_found(self, names, *said, words=(), lines=()):
        """Those checks alone fail, and say all that."""
        exit_code, printed = self.doctor(*words, lines=lines)
        self.assertEqual(exit_code, 1, printed)
        for text in said:
            self.assertIn(text, printed)
        failed = dict.fromkeys(re.findall(r"^FAILED +(\S+)", printed, re.M))
        self.assertEqual(set(failed), set(names.split()), printed)
        self.assertIn(f"{len(failed)} of the checks failed: {', '.join(failed)}", printed)

    def stage(self, host, do, undo):
        self.hosts.run(host, do)
        self.addCleanup(self.hosts.run, host, undo)

    def mount(self, host, target, text):
        self.hosts.mount_file(host, target, text)
        self.addCleanup(self.hosts.run, host, ["umount", target])

    def test_healthy_hosts_pass(self):
        exit_code, printed = self.doctor()
        self.assertEqual(exit_code, 0, printed)
        self.assertIn("A run would work.", printed)
        self.assertIn("10.10.1.1 → 10.10.1.2: ", printed)
        self.assertNotIn("FAILED", printed)

    def test_what_is_wrong_between_hosts(self):
        """A port closed one way, an MTU too small, loopback in /etc/hosts."""
        rule = ["INPUT", "-p", "tcp", "-s", "10.10.1.3", "--dport", "29400", "-j", "DROP"]
        self.stage(0, ["iptables", "-A", *rule], ["iptables", "-D", *rule])
        self.stage(1, ["ip", "link", "set", "eth0", "mtu", "600"],
                   ["ip", "link", "set", "eth0", "mtu", "1500"])
        self.mount(2, "/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 host3\n")
        self.assert_found(
            "ports mtu names",
            "10.10.1.3 → 10.10.1.1: port 29400: no answer within 2 s, expected all to be open (the "
            "other way is open)",
            "host 10.10.1.2: got MTU 600 of eth0, expected 1500",
            "host 10.10.1.3: its own name 'host3' means 127.0.1.1 there, loopback, expected "
            "10.10.1.3")

    def test_what_is_wrong_on_hosts(self):
        """An old version, another instruction set, too little memory, no data."""
        cpu, memory = (pathlib.Path(f"/proc/{name}").read_text() for name in ("cpuinfo", "meminfo"))
        self.mount(2, str(BIN / "gradwire"), "#!/bin/sh\necho gradwire 0.0.9\n")
        self.hosts.run(2, ["chmod", "+x", BIN / "gradwire"])
        self.mount(1, "/proc/cpuinfo", re.sub(r"\b(avx\w*|sse4_2|asimd)\b ?", "", cpu))
        self.mount(2, "/proc/meminfo", re.sub(r"(MemAvailable: *)\d+", r"\g<1>204800", memory))
        self.stage(0, ["mount", "-t", "tmpfs", "tmpfs", self.data], ["umount", self.data])
        self.assert_found(
            "version cpu memory data",
            "host 10.10.1.3: got version 'gradwire 0.0.9', expected 'gradwire ",
            "host 10.10.1.2: got instruction set of ",
            "host 10.10.1.3: got 0.2 GiB of free memory, expected 1 GiB",
            f"host 10.10.1.1: '{self.data}': no files in it, expected the 1 files that 10.10.1.2 "
            "has")

    def test_other_data_of_the_same_size(self):
        self.mount(1, str(self.data / "batch.bin"), "y" * 100)
        self.assert_found("data", "host 10.10.1.2: ", "batch.bin differ from those of 10.10.1.1")

    def test_link_at_a_tenth(self):
        self.hosts.limit_rate(1, TENTH)
        self.addCleanup(self.hosts.limit_rate, 1, RATE)
        self.assert_found("links", "10.10.1.2 → 10.10.1.1: got 0.0", "10.10.1.2 → 10.10.1.3: got")

    def test_name_resolved_to_another_network(self):
        self.stage(2, ["ip", "link", "add", "control", "type", "bridge"],
                   ["ip", "link", "del", "control"])
        self.hosts.run(2, ["ip", "address", "add", "172.31.0.3/24", "dev", "control"])
        self.hosts.run(2, ["ip", "link", "set", "control", "up"])
        for host in range(2):
            self.stage(host, ["ip", "route", "add", "172.31.0.3/32", "via", "10.10.1.3"],
                       ["ip", "route", "del", "172.31.0.3/32"])
        text = "127.0.0.1 localhost\n10.10.1.1 host1\n10.10.1.2 host2\n172.31.0.3 node3\n"
        self.mount(0, "/etc/hosts", text)
        known = self.hosts.folder / "known_hosts"
        known.write_text(known.read_text().replace("10.10.1.3,", "10.10.1.3,node3,172.31.0.3,"))
        self.assert_found("addresses", "host node3: its name means 172.31.0.3, in network "
                          "172.31.0.0/24, expected 10.10.1.3", lines=("host1", "host2", "node3"))
        exit_code, printed = self.doctor("--network", "10.10.1.0/24",
                                         lines=("host1", "host2", "node3"))
        self.assertEqual(exit_code, 0, printed)

    def test_dead_host(self):
        exit_code, printed = self.doctor(lines=("10.10.1.1", "10.10.1.9"))
        self.assertEqual(exit_code, 1, printed)
        self.assertIn("FAILED  ssh        host 10.10.1.9: ssh ended with exit code 255", printed)


@unittest.skipUnless(FAKETIME.exists(), f"no {FAKETIME} (apt-get install libfaketime)")
class ClockTest(unittest.TestCase):
    def test_clock_off_by_five_seconds(self):
        variables = f'LD_PRELOAD={FAKETIME} FAKETIME="+5s" FAKETIME_DONT_FAKE_MONOTONIC=1'
        with ReachableHosts(3, {1: variables}) as hosts:
            exit_code, printed = hosts.gradwire("doctor", "--hostfile", hosts.hostfile())
            self.assertEqual(exit_code, 1, printed)
            self.assertIn("host 10.10.1.2: its clock is 5.0 s ahead, expected at most 0.5 s",
                          printed)
            self.assertRegex(printed, r"of the checks failed: .*clocks")


class ThisMachine(unittest.TestCase):
    def test_is_looked_at_without_a_hostfile(self):
        with ReachableHosts(1) as hosts:
            exit_code, printed = hosts.gradwire("doctor")
            self.assertEqual(exit_code, 0, printed)
            hosts.mount_file(0, "/proc/loadavg", "9999.00 1.00 1.00 1/1 1\n")
            exit_code, printed = hosts.gradwire("doctor")
            self.assertEqual(exit_code, 0, printed)
            self.assertIn("WARNING load       host this machine: got a load of 9999.0", printed)
            self.assertIn("A run would work.", printed)
            text = "MemAvailable: 1000 kB\n"
            hosts.mount_file(0, "/proc/meminfo", text)
            exit_code, printed = hosts.gradwire("doctor")
            self.assertEqual(exit_code, 1, printed)
            self.assertIn("FAILED  memory     host this machine: got 0.00095 GiB", printed)


if __name__ == "__main__":
    unittest.main()
