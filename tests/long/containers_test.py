"""deploy/compose and deploy/kubernetes in containers of podman, from images that deploy/images makes of
Debian's packages and of this build's. There is no cluster: podman takes the place of the kubelet, and
the test that of the controllers of Job and Service."""
import atexit
import copy
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"]).parent
sys.path.insert(0, str(SOURCE / "tests/support"))
from podman_host import PodmanHost, why_no_podman  # noqa: E402

WAIT = 200  # seconds, a bound
WORKERS = 3
TRAINED = "--model lenet --dataset synthetic --batch-size 8 --threads 1 --print-every 0 --iterations"
ITERATIONS = 3000  # some 15 s
MEMORY = "400m"
TOO_LARGE = "--dataset synthetic --batch-size 256 --threads 1 --iterations 3"
HASH = re.compile(r'"parameters_sha256": *"(\w+)"')
NETWORK = "pods"
host = None  # a PodmanHost with the images


def setUpModule():
    global host
    if reason := why_no_podman():
        raise unittest.SkipTest(f"did not run: {reason}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-containers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # at exit: also after Ctrl-C
    host = PodmanHost(folder)
    host.up()
    atexit.register(host.down)
    info = host.podman("run", "--rm", "--rootfs", "/:O", "true", check=False)
    if info:
        raise unittest.SkipTest(f"did not run: podman makes no containers here: {info}")
    make_images(folder)


def make_images(folder):
    """Runs deploy/images, and the commands that it prints."""
    subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B",
                    folder / "debs", "-D", "CPACK_COMPONENTS_ALL=programs", "-D",
                    "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"], cwd=BUILD, check=True, timeout=600,
                   stdout=subprocess.DEVNULL)
    package, = (folder / "debs").glob("gradwire_*.deb")
    folder.chmod(0o755)
    made = subprocess.run([SOURCE / "deploy/images", package, folder / "images"], text=True,
                          check=True, timeout=1200, stdout=subprocess.PIPE)
    for line in made.stdout.splitlines():
        program, *words = shlex.split(line)
        assert program == "podman", line
        host.podman(*words)
    shutil.rmtree(folder / "images")
    host.podman("tag", f"gradwire:{version()}", "gradwire:latest")


def version():
    text = (SOURCE / "CMakeLists.txt").read_text()
    return re.search(r"^project\(gradwire VERSION ([0-9.]+)", text, re.MULTILINE)[1]


def wait_for(what, condition):
    """Returns what the condition returned once it was true."""
    until = time.monotonic() + WAIT
    while not (result := condition()):
        if time.monotonic() >= until:
            raise AssertionError(f"waited {WAIT} s in vain for {what}:\n"
                                 f"{host.podman('ps', '--all', '--no-trunc')}")
        time.sleep(0.2)
    return result


def exit_codes(*containers):
    """Waits until these have ended."""
    return [int(code) for code in host.podman("wait", *containers, seconds=WAIT).split()]


def hashes(*containers):
    return {found for name in containers for found in HASH.findall(host.podman("logs", name))}


class ComposeTest(unittest.TestCase):
    """deploy/compose/compose.yaml, read by podman-compose. Debian has no Grafana."""
    expected = None  # the hash of the same run in one process

    def compose(self, *words, options=""):
        """Runs podman-compose with the files of this test."""
        files = [self.folder / "deploy/compose/compose.yaml", *self.more_files]
        return host.compose(*[word for file in files for word in ("-f", str(file))], "-p", "run",
                            *words, env={**os.environ, "GRADWIRE_WORKERS": str(WORKERS),
                                         "WORKER_OPTIONS": options, "PROMETHEUS_IMAGE": "prometheus"})

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        # A copy, because podman leaves a file beside compose.yaml when memory ends.
        shutil.copytree(SOURCE / "deploy", self.folder / "deploy", symlinks=True)
        self.more_files = []
        self.workers = [f"run_worker_{number + 1}" for number in range(WORKERS)]
        self.addCleanup(self.down)

    def down(self):
        self.compose("down", "--volumes")
        self.assertEqual(host.podman("ps", "--all", "--quiet"), "")
        self.assertEqual(host.podman("volume", "ls", "--quiet"), "")

    def up(self, options, *services):
        self.compose("up", "--detach", "--no-build", *services, options=options)

    def step(self):
        """Returns how many steps all ranks have done."""
        page = host.get("http://127.0.0.1:9400/metrics")
        return int(re.search(r"^gradwire_step(?:{.*})? (\d+)", page, re.MULTILINE)[1]) if page else 0

    def expected_hash(self):
        """Trains all ranks in one process of one container."""
        if not ComposeTest.expected:
            said = host.podman("run", "--rm", "gradwire", "gradwire", "launch", "--workers", "1",
                               "--world-size", str(WORKERS), "--summary", "/dev/stdout", "--",
                               *TRAINED.split(), str(ITERATIONS))
            found = set(HASH.findall(said))
            self.assertEqual(len(found), 1, said)
            ComposeTest.expected = found
        return ComposeTest.expected

    def train(self):
        self.up(f"{TRAINED} {ITERATIONS} --summary /dev/stdout", "coordinator", "worker")
        wait_for("the first steps", lambda: self.step() > 50)

    def test_training_ends_with_0_and_the_right_hash(self):
        self.train()
        self.assertIn("<title>", host.get("http://127.0.0.1:9400/"))
        codes = exit_codes(*self.workers)
        said = host.podman("logs", "run_coordinator_1")
        self.assertEqual(codes, [0] * WORKERS, said)
        self.assertEqual(hashes(*self.workers), self.expected_hash(), said)
        self.assertEqual(exit_codes("run_coordinator_1"), [0])

    def test_run_goes_on_with_the_same_hash_after_podman_kill(self):
        self.train()
        host.podman("kill", self.workers[1])
        codes = exit_codes(*self.workers)
        said = host.podman("logs", "run_coordinator_1")
        self.assertEqual(codes, [0, 137, 0], said)
        self.assertEqual(hashes(*self.workers), self.expected_hash(), said)
        self.assertRegex(said, r"was lost in step \d+: .*carried on by others")

    def test_workers_that_meet_the_limit_of_their_memory(self):
        limit = self.folder / "limit.yaml"
        limit.write_text(f"services:\n  worker:\n    mem_limit: {MEMORY}\n")
        self.more_files = [limit]
        self.up(TOO_LARGE, "coordinator", "worker")
        self.assertEqual(exit_codes("run_coordinator_1", *self.workers), [1, *[137] * WORKERS])
        said = host.podman("logs", "run_coordinator_1")
        self.assertRegex(said, r"the run failed: ranks? [\d, ]+ \(\S+\) (was|were) lost in step 0: its "
                               "session stream broke; 0 workers are left")

    def targets(self):
        """Returns {URL: health} of Prometheus' targets."""
        answer = host.get("http://127.0.0.1:9490/api/v1/targets")
        found = json.loads(answer)["data"]["activeTargets"] if answer else ()
        return {target["scrapeUrl"]: target["health"] for target in found}

    def test_prometheus_scrapes_the_coordinator_and_all_workers(self):
        self.up(f"{TRAINED} 100000000", "coordinator", "worker", "prometheus")
        wait_for("all targets", lambda: list(self.targets().values()) == ["up"] * (WORKERS + 1))
        urls = self.targets()
        self.assertEqual(sum("//coordinator:9400/metrics" in url for url in urls), 1, urls)
        self.assertEqual(sum(":9401/metrics" in url for url in urls), WORKERS, urls)


def rendered(variant):
    """Returns the objects of a variant of deploy/kubernetes."""
    text = subprocess.run(["kubectl", "kustomize", SOURCE / "deploy/kubernetes" / variant],
                          check=True, text=True, stdout=subprocess.PIPE).stdout
    return list(yaml.safe_load_all(text))


class PodsTest(unittest.TestCase):
    """Pods of `podman play kube`, which makes neither Jobs nor Services: the test makes the pods of the
    Indexed Job, with fixed addresses and their names in hostAliases."""
    found = set()  # hashes of all variants

    @classmethod
    def setUpClass(cls):
        if shutil.which("kubectl") is None:
            raise unittest.SkipTest("did not run: no kubectl, which has kustomize")

    def setUp(self):
        self.addCleanup(host.podman, "network", "rm", "--force", NETWORK)
        self.addCleanup(host.podman, "pod", "rm", "--force", "--all", "--time", "0")
        host.podman("network", "create", "--subnet", "10.10.2.0/24", "--gateway", "10.10.2.254",
                    NETWORK)

    def aliases(self, names):
        return [{"ip": f"10.10.2.{place + 1}", "hostnames": [name]}
                for place, name in enumerate(names)]

    def play(self, objects, addresses):
        file = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "pods.yaml")
        file.write_text(yaml.safe_dump_all(objects))
        host.podman("play", "kube", "--network", NETWORK,
                    *(word for address in addresses for word in ("--ip", address)), file)

    def ranks(self, objects, names):
        """Returns the ConfigMap and the pods of the Job, as its controller makes them. Podman takes the
        ports of a pod on the host, so only the coordinator's pod keeps them."""
        serves = not any(item["kind"] == "Deployment" for item in objects)
        job = next(item for item in objects if item["kind"] == "Job")
        pods = [next(item for item in objects if item["kind"] == "ConfigMap")]
        for index in range(job["spec"]["completions"]):
            template = copy.deepcopy(job["spec"]["template"])
            spec, (container,) = template["spec"], template["spec"]["containers"]
            container["env"].append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
            if index or not serves:
                del container["ports"]
            spec |= {"hostname": f"gradwire-{index}", "hostAliases": self.aliases(names)}
            container["args"].append("--print-every=0")
            container["args"] = [word.replace("/results/summary.{rank}.json", "/dev/stdout")
                                 for word in container["args"]]
            pods.append({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                         "metadata": {"name": f"gradwire-{index}", **template["metadata"]}})
        return pods

    def check(self, containers):
        self.assertEqual(exit_codes(*containers), [0] * len(containers),
                         [host.podman("logs", name)[-1000:] for name in containers])
        PodsTest.found |= hashes(*containers)
        self.assertEqual(len(PodsTest.found), 1, PodsTest.found)

    def test_base_rank_0_is_the_coordinator(self):
        names = [f"gradwire-{index}.gradwire" for index in range(4)]
        pods = self.ranks(rendered("base"), names)
        self.play(pods, [alias["ip"] for alias in self.aliases(names)])
        self.check([f"gradwire-{index}-worker" for index in range(4)])
        state = json.loads(host.podman("inspect", "gradwire-1-worker"))[0]
        self.assertEqual(state["Config"]["User"], "65532:65532")
        self.assertTrue(state["HostConfig"]["ReadonlyRootfs"])
        self.assertFalse(state["EffectiveCaps"])
        self.assertEqual(state["HostConfig"]["Memory"], 2 << 30)

    def test_coordinator_deployment_serves_one_run_after_the_other(self):
        objects = rendered("coordinator")
        names = ["gradwire-coordinator", *(f"gradwire-{index}.gradwire" for index in range(4))]
        addresses = [alias["ip"] for alias in self.aliases(names)]
        options = next(item for item in objects if item["kind"] == "ConfigMap")
        deployment = next(item for item in objects if item["kind"] == "Deployment")
        container, = deployment["spec"]["template"]["spec"]["containers"]
        container["args"].append("--linger-seconds=0")
        self.play([options, deployment], addresses[:1])
        for _ in range(2):
            ranks = self.ranks(objects, names)
            self.play(ranks, addresses[1:])
            self.check([f"gradwire-{index}-worker" for index in range(4)])
            host.podman("pod", "rm", "--force", "--time", "0",
                        *(f"gradwire-{index}" for index in range(4)))

    def test_live_page_of_rank_0_is_reachable_from_the_host(self):
        names = [f"gradwire-{index}.gradwire" for index in range(4)]
        objects = rendered("base")
        options = next(item for item in objects if item["kind"] == "ConfigMap")
        options["data"]["run.ini"] = options["data"]["run.ini"].replace("iterations = 20",
                                                                         "iterations = 100000000")
        self.play(self.ranks(objects, names), [alias["ip"] for alias in self.aliases(names)])
        wait_for("the page", lambda: "<title>" in host.get("http://127.0.0.1:9400/"))
        self.assertIn("gradwire_step", host.get("http://127.0.0.1:9400/metrics"))


if __name__ == "__main__":
    unittest.main()
