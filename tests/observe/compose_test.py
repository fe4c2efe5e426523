"""deploy/compose: a valid file, whose commands the programs understand. No container runs."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import yaml

from support import BIN, DEPLOY

FOLDER = DEPLOY / "compose"


def compose(**environment):
    """The services as docker-compose understands the file."""
    result = subprocess.run(["docker-compose", "-f", FOLDER / "compose.yaml", "config"],
                            env={"PATH": os.environ["PATH"], **environment}, text=True,
                            capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout)["services"]


def options(words):
    return set(re.findall(r"--[a-z-]+", " ".join(words)))


class Compose(unittest.TestCase):

    def test_there_are_all_services(self):
        self.assertEqual(set(compose()), {"coordinator", "worker", "prometheus", "grafana"})

    def test_as_many_workers_as_the_coordinator_waits_for(self):
        services = compose(GRADWIRE_WORKERS="3")
        self.assertIn("--world-size=3", services["coordinator"]["command"])
        self.assertEqual(services["worker"]["deploy"]["replicas"], 3)

    def test_options_are_those_of_the_programs(self):
        services = compose()
        words = {"gradwire-coordinator": services["coordinator"]["command"],
                 "gradwire-worker": services["worker"]["command"] +
                                    [services["worker"]["environment"]["WORKER_OPTIONS"]]}
        for program, command in words.items():
            help_text = subprocess.run([BIN / program, "--help"], text=True, check=True,
                                       stdout=subprocess.PIPE).stdout
            self.assertIn(program, " ".join(command))
            self.assertLessEqual(options(command), options([help_text]))

    def test_worker_options_reach_the_worker_as_words(self):
        command = compose(WORKER_OPTIONS="--lr 0.5")["worker"]["command"]
        # Compose turns $$ into $ when it starts a container.
        script = command[-1].replace("$$", "$").replace("exec gradwire-worker", "printf '<%s>'")
        output = subprocess.run([*command[:-1], script], env={"WORKER_OPTIONS": "--lr 0.5",
                                                              "PATH": os.environ["PATH"]},
                                text=True, check=True, stdout=subprocess.PIPE).stdout
        self.assertTrue(output.endswith("<--lr><0.5>"), output)

    def test_what_is_mounted_is_there(self):
        for name, service in compose().items():
            for volume in service.get("volumes", []):
                # Newer versions of docker-compose show them in the long form.
                source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
                if source.startswith("/"):
                    self.assertTrue(pathlib.Path(source).is_dir(), f"{name}: {source}")

    def test_prometheus_asks_the_coordinator_by_its_name(self):
        prometheus = compose()["prometheus"]
        with tempfile.TemporaryDirectory() as folder:
            script = prometheus["command"][0].replace("/etc/gradwire", str(DEPLOY / "prometheus"))
            script = re.sub(r" /prometheus/", f" {folder}/", script)
            script = re.sub(r"exec /bin/prometheus.*", "", script, flags=re.DOTALL)
            subprocess.run([*prometheus["entrypoint"], script], check=True)
            file = pathlib.Path(folder, "configuration", "prometheus.yml")
            self.assertIn("url: http://coordinator:9400/sd", file.read_text())
            subprocess.run(["promtool", "check", "config", file], check=True,
                           stdout=subprocess.DEVNULL)

    def test_grafana_is_told_what_its_provisioning_asks_for(self):
        files = [file.read_text() for file in (DEPLOY / "grafana/provisioning").rglob("*.yml")]
        asked = {name for text in files for name in re.findall(r": \$(\w+)", text)}
        self.assertEqual(asked, {"PROMETHEUS_URL", "GRADWIRE_DASHBOARDS"})
        self.assertLessEqual(asked, set(compose()["grafana"]["environment"]))


if __name__ == "__main__":
    unittest.main()
