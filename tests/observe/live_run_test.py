"""Real runs beside a real Prometheus, which deploy/observe started: every panel has data,
and alerts fire for what is staged and for nothing else.

The rules are the shipped ones with shorter windows, so that seconds do for minutes.
"""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from support import BIN, Process, Prometheus, free_port, get, panels, short_deployment, wait_for
from phases import PARTS  # on the path since support is

TRAINING = ["--dataset", "synthetic", "--lr", "0.001", "--threads", "1", "--print-every", "0"]
WAIT = 120  # seconds; a few do, but on a machine that is busy
# They may be right on a machine where others run: a rank is held up, or gets no processor
# for what it has received.
NOISY = {"GradwireStragglerRank", "GradwireCommunicationExposed"}


def fill_in(expression, run):
    """The expression as Grafana would send it, with all ranks chosen."""
    for name, value in (("$run", run), ("$rank", ".*"), ("$link", "1e9"),
                        ("$__rate_interval", "15s"), ("$__range", "60s")):
        expression = expression.replace(name, value)
    return expression


def expand(label_values, run):
    """What a variable of the form label_values(SELECTOR, LABEL) asks Prometheus."""
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", label_values).groups()
    return fill_in(f"count by ({label}) ({selector})", run), label


class Straggler:
    """Stops a process for most of the time, on a thread of its own."""

    def __init__(self, process):
        self._process = process
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._over.is_set():
            self._process.send(signal.SIGSTOP)
            self._over.wait(0.7)
            self._process.send(signal.SIGCONT)
            self._over.wait(0.3)

    def end(self):
        self._over.set()
        self._thread.join()


class LiveRun(unittest.TestCase):
    """One Prometheus for all; each test has a run of its own, on the same port."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.metrics, port = f"127.0.0.1:{free_port()}", free_port()
        cls.prometheus = Prometheus(f"http://127.0.0.1:{port}")
        observe = short_deployment(cls.folder / "deploy")
        process = Process([observe, "--coordinator", cls.metrics, "--port", port,
                           "--data-dir", cls.folder / "data", "--scrape-interval", "1s"],
                          cls.folder / "observe.log")
        cls.addClassCleanup(process.end, signal.SIGINT)
        wait_for("observe to start", lambda: "Ctrl-C ends it" in process.text(), WAIT)

    def start(self, name, *command):
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("GRADWIRE_")}
        process = Process(command, self.folder / f"{name}.log", env=environment)
        self.addCleanup(process.end)
        return process

    def start_workers(self, listen, *options):
        return [self.start(f"rank {rank}", BIN / "gradwire-worker", "--coordinator", listen,
                           "--rank", rank, "--metrics", "127.0.0.1:0", *TRAINING, *options)
                for rank in (0, 1)]

    def start_coordinator(self, linger):
        ports = self.folder / "ports"
        ports.unlink(missing_ok=True)
        self.start("coordinator", BIN / "gradwire-coordinator", "--world-size", 2,
                   "--listen", "127.0.0.1:0", "--metrics", self.metrics, "--port-file", ports,
                   "--linger-seconds", linger, "--on-loss", "stop")
        wait_for("the coordinator to listen", ports.exists, WAIT)
        return dict(line.split("=") for line in ports.read_text().split())["grpc"]

    def wait_for_scraped_steps(self, run):
        """Until all of `run`, coordinator and workers, has been scraped for some seconds."""
        wait_for("coordinator and workers to be scraped", lambda: self.prometheus.value(
            f'sum(count_over_time(up{{run="{run}"}}[60s]) >= bool 10)') == 3, WAIT)

    def run_id(self):
        """Of the coordinator that is there, once Prometheus has seen a step of it."""
        run = wait_for("the coordinator's pages", lambda: json.loads(
            get(f"http://{self.metrics}/status.json"))["run"], WAIT)
        wait_for("a step to be scraped", lambda: self.prometheus.query(
            f'gradwire_step{{program="coordinator",run="{run}"}} > 0'), WAIT)
        return run

    def names_of_firing(self, run):
        return {alert["alertname"] for alert in self.prometheus.firing() if alert["run"] == run}

    def check_no_alert(self, run, during):
        """None fired that does not depend on how busy this machine is, and the others rest."""
        fired = f'last_over_time(ALERTS{{alertstate="firing",run="{run}"}}[%s])'
        names = {series["metric"]["alertname"] for series in self.prometheus.query(fired % during)}
        self.assertLessEqual(names, NOISY)
        wait_for("a while without alerts", lambda: not self.prometheus.query(fired % "5s"), WAIT)

    def check_metrics_are_clean(self):
        for target in self.prometheus.ask("targets")["activeTargets"]:
            result = subprocess.run(["promtool", "check", "metrics"], text=True,
                                    input=get(target["scrapeUrl"]), capture_output=True,
                                    check=False)
            self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def check_panel(self, panel, run):
        """Each expression has data: a number that its unit allows."""
        for target in panel["targets"]:
            expression = fill_in(target["expr"], run)
            self.assertNotIn("$", expression)
            if target["instant"]:
                series = [[s["value"]] for s in self.prometheus.query(expression)]
            else:
                series = [s["values"] for s in self.prometheus.query_range(expression, 8)]
            numbers = [float(value) for values in series for _, value in values]
            self.assertTrue([n for n in numbers if math.isfinite(n)], expression)
            if panel["fieldConfig"]["defaults"]["unit"] == "percentunit":
                # Of two counters one may be a step ahead when they are asked: that is no fraction
                # of 1, but neither is it per cent.
                self.assertLessEqual(max(n for n in numbers if math.isfinite(n)), 2, expression)

    def check_variables(self, dashboard, run):
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                expression, label = expand(variable["query"]["query"], run)
                found = {s["metric"][label] for s in self.prometheus.query(expression)}
                expected = {"run": run, "rank": "1"}[variable["name"]]
                self.assertIn(expected, found)

    def check_marks(self, run):
        """The alerts that fire are on the time line of each dashboard."""
        for dashboard in {d["uid"]: d for d, _ in panels()}.values():
            for mark in dashboard["annotations"]["list"]:
                expression = fill_in(mark["expr"], run)
                self.assertNotIn("$", expression)
                self.assertTrue(self.prometheus.query(expression), expression)

    def check_phases_add_up(self, run):
        parts = "|".join(PARTS)
        share = self.prometheus.value(
            f'sum(gradwire_phase_seconds_sum{{run="{run}",phase=~"{parts}"}})'
            f' / sum(gradwire_iteration_seconds_sum{{run="{run}"}})')
        self.assertGreater(share, 0.7)  # the rest: between phases, where others get the processor
        self.assertLess(share, 2)

    def test_a_healthy_run_has_data_in_each_panel_and_no_alert(self):
        launch = self.start("launch", BIN / "gradwire", "launch", "--workers", 2,
                            "--metrics", self.metrics, "--run-dir", self.folder / "kept",
                            "--checkpoint-every", 10, "--", "--metrics", "127.0.0.1:0", *TRAINING,
                            "--batch-size", 8, "--iterations", 100000)
        run = self.run_id()
        self.wait_for_scraped_steps(run)
        under_way = time.monotonic()
        for dashboard, panel in panels():
            with self.subTest(dashboard=dashboard["title"], panel=panel["title"]):
                self.check_panel(panel, run)
        for dashboard in {d["uid"]: d for d, _ in panels()}.values():
            with self.subTest(dashboard=dashboard["title"]):
                self.check_variables(dashboard, run)
        self.check_phases_add_up(run)
        self.check_metrics_are_clean()
        # Before it, a worker that is slow to start is missing, which is an alert with these windows.
        self.check_no_alert(run, during=f"{5 + int(time.monotonic() - under_way)}s")
        launch.end(signal.SIGINT)

    def test_a_run_that_ends_raises_no_alert(self):
        listen = self.start_coordinator(linger=WAIT)
        workers = self.start_workers(listen, "--batch-size", 2, "--iterations", 3)
        self.assertEqual([worker.wait(WAIT) for worker in workers], [0, 0])
        run = self.run_id()
        ended = f'gradwire_workers{{program="coordinator",run="{run}"}} == 0'
        wait_for("the end to be scraped", lambda: self.prometheus.query(ended), WAIT)
        # For longer than any `for` of the rules nothing but the end is seen.
        wait_for("some scrapes of the end", lambda: self.prometheus.query(
            f'max_over_time(gradwire_workers{{program="coordinator",run="{run}"}}[15s]) == 0'),
                 WAIT)
        self.check_no_alert(run, during="15s")  # before it, workers may be slow to start

    def test_a_straggler_and_a_lost_worker_raise_their_alerts(self):
        listen = self.start_coordinator(linger=WAIT)
        workers = self.start_workers(listen, "--batch-size", 2, "--iterations", 100000)
        run = self.run_id()
        straggler = Straggler(workers[1])
        try:
            wait_for("the straggler's alert",
                     lambda: "GradwireStragglerRank" in self.names_of_firing(run), WAIT)
        finally:
            straggler.end()
        stragglers = {alert["rank"] for alert in self.prometheus.firing()
                      if alert["alertname"] == "GradwireStragglerRank" and alert["run"] == run}
        self.assertEqual(stragglers, {"1"})
        self.assertNotIn("GradwireWorkerLost", self.names_of_firing(run))
        workers[1].send(signal.SIGKILL)
        wait_for("the alert of the loss",
                 lambda: "GradwireWorkerLost" in self.names_of_firing(run), WAIT)
        self.check_marks(run)
        self.assertNotIn("GradwireWorkersMissing", self.names_of_firing(run))  # the run has ended


if __name__ == "__main__":
    unittest.main()
