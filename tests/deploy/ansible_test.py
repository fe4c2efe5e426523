"""deploy/ansible: clean for ansible-lint; what it configures makes the units' commands a run."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
ANSIBLE = SOURCE / "deploy/ansible"
HOSTS = ("first", "second")


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=900, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}")
    return done.stdout


def command_of(unit):
    """What systemd would start, of this build."""
    text = (SOURCE / "deploy/systemd" / f"{unit}.service").read_text()
    program = re.search(r"^ExecStart=/usr/bin/(\S+)$", text, re.MULTILINE)[1]
    return [BIN / program]


def environment_of(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class UnitsTest(unittest.TestCase):
    def test_units_read_what_the_playbook_writes_and_start_again_after_75_alone(self):
        playbook = (ANSIBLE / "run.yml").read_text()
        folder = re.search(r"\n    configuration: (\S+)\n", playbook)[1]
        for name in ("coordinator", "worker"):
            text = (SOURCE / f"deploy/systemd/gradwire-{name}.service").read_text()
            settings = dict(line.split("=", 1) for line in text.splitlines() if re.match(r"\w+=", line))
            self.assertEqual(settings["EnvironmentFile"], f"-{folder}/{name}.env")
            self.assertTrue((ANSIBLE / f"templates/{name}.env.j2").exists())
            self.assertEqual((settings["RestartForceExitStatus"], settings.get("Restart", "no")), ("75", "no"))
            self.assertEqual((settings["StateDirectory"], settings["WorkingDirectory"]),
                             (f"gradwire-{name}", f"%S/gradwire-{name}"))
        summary = re.search(r"GRADWIRE_SUMMARY=(\S+)", (ANSIBLE / "templates/worker.env.j2").read_text())[1]
        self.assertIn(f"src: /var/lib/private/gradwire-worker/{summary}\n", playbook)


class AnsibleTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-ansible-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_lint_clean(self):
        # It judges nothing that is not below the folder in which it starts.
        copy = shutil.copytree(ANSIBLE, self.folder / "playbooks")
        playbooks = sorted(file.name for file in copy.glob("*.yml"))
        out = run("ansible-lint", "--offline", "--nocolor", "--profile", "production", *playbooks,
                  cwd=copy)
        self.assertIn(f"on {len(playbooks)} files", out)

    def configure(self):
        inventory = self.folder / "hosts.ini"
        inventory.write_text("[gradwire]\n" + "\n".join(HOSTS) + "\n")
        run("ansible-playbook", "-i", inventory, "-c", "local", "--tags", "configure",
            "-e", "as_root=false", "-e", "ansible_host=127.0.0.1",
            "-e", f"configuration={self.folder}/{{{{ inventory_hostname }}}}", ANSIBLE / "run.yml",
            env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible"),
                 "ANSIBLE_REMOTE_TEMP": str(self.folder / "ansible")})

    def test_configured_units_run_one_hash(self):
        self.configure()
        port = str(unused_port())
        processes = []
        for host in HOSTS:
            (self.folder / host / "state").mkdir()
        starts = [("gradwire-coordinator", HOSTS[0], "coordinator.env")]
        starts += [("gradwire-worker", host, "worker.env") for host in HOSTS]
        for unit, host, file in starts:
            environment = environment_of(self.folder / host / file)
            if "GRADWIRE_COORDINATOR" in environment:
                environment["GRADWIRE_COORDINATOR"] = f"127.0.0.1:{port}"
            else:
                environment.update(GRADWIRE_LISTEN=f"127.0.0.1:{port}", GRADWIRE_METRICS="off")
            processes.append(subprocess.Popen(
                command_of(unit), cwd=self.folder / host / "state", text=True,
                env={"PATH": os.environ["PATH"], **environment}, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        try:
            for process in processes:
                out, _ = process.communicate(timeout=500)
                self.assertEqual(process.returncode, 0, out)
        finally:
            for process in processes:
                process.kill()
        summaries = [json.loads((self.folder / host / "state/summary.json").read_text())
                     for host in HOSTS]
        self.assertEqual([summary["rank"] for summary in summaries], [0, 1])
        self.assertEqual(len({summary["parameters_sha256"] for summary in summaries}), 1)


if __name__ == "__main__":
    unittest.main()
