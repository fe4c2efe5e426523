"""What the tests of Prometheus, its rules and the dashboards share."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests" / "support"))
DEPLOY = SOURCE / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
BIN = pathlib.Path(os.environ.get("GRADWIRE_BIN_DIR", SOURCE / "build" / "bin"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url, timeout=5, context=None):
    """The body of GET `url` as text; `context` of HTTPS. OSError if it cannot be had."""
    with urllib.request.urlopen(url, timeout=timeout, context=context) as answer:
        return answer.read().decode()


def wait_for(what, condition, seconds):
    """What `condition` returns once it is true; asks again and again."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if result := condition():
                return result
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


class Process:
    """A program in a process group of its own, whose output goes to a file."""

    def __init__(self, command, output, **options):
        self.output = pathlib.Path(output)
        with open(self.output, "w") as file:
            self._process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, start_new_session=True, **options)
        self.pid = self._process.pid

    def text(self):
        return self.output.read_text(errors="replace")

    def running(self):
        return self._process.poll() is None

    def send(self, number):
        if self.running():
            os.kill(self.pid, number)

    def wait(self, seconds=20):
        return self._process.wait(seconds)

    def end(self, number=signal.SIGTERM):
        """Ends it, the hard way after 10 s; its exit code."""
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            return self.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            return self.wait()


class Prometheus:
    """Questions to a Prometheus server; times are Unix seconds."""

    def __init__(self, url):
        self.url = url

    def ask(self, path, **parameters):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            answer = get(url)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{url}: {error.read().decode()}") from error
        return json.loads(answer)["data"]

    def query(self, expression):
        return self.ask("query", query=expression)["result"]

    def value(self, expression):
        """Of the first series; None if there is none."""
        result = self.query(expression)
        return float(result[0]["value"][1]) if result else None

    def query_range(self, expression, seconds, step=1):
        now = time.time()
        return self.ask("query_range", query=expression, start=now - seconds, end=now,
                        step=step)["result"]

    def firing(self):
        """Names of the alerts that fire, with their labels."""
        return [alert["labels"] for alert in self.ask("alerts")["alerts"]
                if alert["state"] == "firing"]


def short_deployment(folder):
    """A copy of deploy/observe and its rules, which judge seconds where those judge minutes."""
    shutil.copytree(DEPLOY / "prometheus", folder / "prometheus")
    for script in ("observe", "arguments.sh"):
        shutil.copy(DEPLOY / script, folder)
    for name in ("recording.yml", "alerts.yml"):
        file = folder / "prometheus" / name
        text = file.read_text()
        text = text.replace("[1m]", "[10s]").replace("5m", "20s")
        # 30 s are for what Prometheus takes 5 s to take notice of: a worker that has left.
        file.write_text(re.sub(r"for: (\w+)", lambda found: "for: 10s" if found[1] == "30s"
                               else "for: 3s", text))
    return folder / "observe"


def panels():
    """(dashboard, panel) of every dashboard."""
    for file in DASHBOARDS:
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            yield dashboard, panel
