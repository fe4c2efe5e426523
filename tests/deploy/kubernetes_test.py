"""deploy/kubernetes: rendered by kustomize, judged by published schemas where npm has any (which: the
table of docs/deploy/kubernetes.md), and each pod's command and environment run per index, in
namespaces of this machine (no kubelet)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

import pods

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["GRADWIRE_BIN_DIR"])
KUBERNETES = SOURCE / "deploy/kubernetes"
VARIANTS = ("base", "coordinator", "jobset", "monitoring", "trainjob")
SCHEMAS = ("kubernetes-models@5.1.0", "@kubernetes-models/prometheus-operator@6.0.0")
TYPESCRIPT = "typescript@5.8.3"
# Of the schemas' modules, that of an apiVersion.
MODULES = {"v1": "kubernetes-models/v1", "apps/v1": "kubernetes-models/apps/v1",
           "batch/v1": "kubernetes-models/batch/v1",
           "monitoring.coreos.com/v1":
               "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"}
PAGE = SOURCE / "docs/deploy/kubernetes.md"
# For which npm has none; the Job inside is judged.
WITHOUT_SCHEMA = {"JobSet gradwire", "TrainingRuntime gradwire", "TrainJob gradwire"}
RANKS = 4


def rendered(variant):
    """The objects of a variant, as kubectl would send them."""
    if shutil.which("kubectl") is None:
        raise unittest.SkipTest("did not run: no kubectl, which has kustomize")
    text = subprocess.run(["kubectl", "kustomize", KUBERNETES / variant], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    return list(yaml.safe_load_all(text))


def of_kind(objects, kind):
    return next(item for item in objects if item["kind"] == kind)


def job_spec(objects):
    """What a variant's ranks are: the spec of its Job, or of the Job inside."""
    kinds = {item["kind"]: item for item in objects}
    if "Job" in kinds:
        return kinds["Job"]["spec"]
    if "JobSet" in kinds:
        return kinds["JobSet"]["spec"]["replicatedJobs"][0]["template"]["spec"]
    return kinds["TrainingRuntime"]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]


def as_job(spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inside"}, "spec": spec}


def template(objects, kind=None):
    return (of_kind(objects, kind)["spec"] if kind else job_spec(objects))["template"]["spec"]


def environment_of(container):
    return {item["name"]: item["value"] for item in container.get("env", ())}


def pod_of(name, objects, spec, names=(), environment=None):
    """A Pod as `spec`, a pod template's, says."""
    container, = spec["containers"]
    options = next(item for item in objects if item["kind"] == "ConfigMap")["data"]
    files, writable = {}, []
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        if "configMap" in volumes[mount["name"]]:
            files.update({f"{mount['mountPath']}/{key}": text for key, text in options.items()})
        else:
            writable.append(mount["mountPath"])
    return pods.Pod(name, list(names), container["command"] + container["args"],
                    {**environment_of(container), **(environment or {})},
                    spec["securityContext"]["runAsUser"], files, writable)


def indexed(objects, host, subdomain, more=None):
    """The pods of an Indexed Job; `more` is what a controller adds to the environment of an index."""
    return [pod_of(f"{host}-{index}", objects, template(objects),
                   names=[f"{host}-{index}.{subdomain}"],
                   environment={"JOB_COMPLETION_INDEX": str(index), **(more(index) if more else {})})
            for index in range(RANKS)]


def pet(index):
    """What Kubeflow Trainer 2 adds for mlPolicy.torch, as the source of its plug-in says."""
    return {"PET_NNODES": str(RANKS), "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": str(index),
            "PET_MASTER_ADDR": "gradwire-node-0-0.gradwire", "PET_MASTER_PORT": "29500"}


def name_of(item):
    return f"{item['kind']} {item['metadata']['name']}"


class SchemasTest(unittest.TestCase):
    maxDiff = None
    """The published schemas, as npm has them compiled (values) and as types (names of fields)."""

    @classmethod
    def setUpClass(cls):
        if shutil.which("npm") is None or shutil.which("node") is None:
            raise unittest.SkipTest("did not run: no npm, from which the schemas come")
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory(prefix="gradwire-schemas-")))
        got = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", cls.folder,
                              *SCHEMAS, TYPESCRIPT], text=True, check=False, timeout=120,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if got.returncode != 0:
            raise unittest.SkipTest(f"did not run: npm has no schemas: {got.stdout[-300:]}")
        cls.objects = [item for variant in VARIANTS for item in rendered(variant)]
        cls.judged = [item for item in cls.objects if item["apiVersion"] in MODULES]
        cls.judged += [as_job(job_spec(rendered(variant))) for variant in ("jobset", "trainjob")]

    def test_every_value_is_valid(self):
        shutil.copy(SOURCE / "tests/deploy/schemas.mjs", self.folder)
        asked = [{"module": MODULES[item["apiVersion"]], "object": item} for item in self.judged]
        done = subprocess.run(["node", self.folder / "schemas.mjs"], check=True, text=True,
                              input=json.dumps(asked), stdout=subprocess.PIPE)
        self.assertEqual([(name_of(item), verdict) for item, verdict in
                          zip(self.judged, json.loads(done.stdout)) if verdict != "valid"], [])

    def test_every_field_is_known(self):
        lines = [f'import {{I{item["kind"]} as T{place}}} from "{MODULES[item["apiVersion"]]}";\n'
                 f"export const o{place}: T{place} = {json.dumps(item)};\n"
                 for place, item in enumerate(self.judged)]
        (self.folder / "objects.ts").write_text("".join(lines))
        done = subprocess.run([self.folder / "node_modules/.bin/tsc", "--noEmit", "--skipLibCheck",
                               "--module", "nodenext", "objects.ts"], cwd=self.folder, text=True,
                              check=False, stdout=subprocess.PIPE)
        self.assertEqual(done.stdout.splitlines(), [])
        self.assertEqual(done.returncode, 0)

    def test_page_says_what_judged_which_kind(self):
        table = PAGE.read_text().split("## What was tried")[1]
        rows = re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
        said = {kind: not judge.startswith("nothing")
                for kinds, judge in rows for kind in re.findall(r"`(\w+)`", kinds)}
        self.assertEqual(said, {item["kind"]: item["apiVersion"] in MODULES
                                for item in self.objects})
        self.assertEqual({name_of(item) for item in self.objects
                          if item["apiVersion"] not in MODULES}, WITHOUT_SCHEMA)
        for module in SCHEMAS:
            name, version = module.rsplit("@", 1)
            self.assertIn(f"`{name}` {version}", table)


class ManifestsTest(unittest.TestCase):
    def test_pods_no_root_no_writable_system_no_privileges(self):
        specs = [template(rendered(variant)) for variant in ("base", "coordinator", "jobset",
                                                             "trainjob")]
        specs.append(template(rendered("coordinator"), "Deployment"))
        for spec in specs:
            container, = spec["containers"]
            self.assertTrue(spec["securityContext"]["runAsNonRoot"])
            self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertEqual(container["securityContext"],
                             {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                              "capabilities": {"drop": ["ALL"]}})
            self.assertFalse(spec["automountServiceAccountToken"])
            # Kubernetes' own GRADWIRE_PORT would be taken for an option.
            self.assertFalse(spec["enableServiceLinks"])
            self.assertIn("limits", container["resources"])

    def test_wrong_options_end_a_job_and_a_coordinator_that_starts_again_does_not_count(self):
        for variant in ("base", "coordinator", "jobset"):
            spec = job_spec(rendered(variant))
            name, = [container["name"] for container in spec["template"]["spec"]["containers"]]
            rules = {rule["action"]: [] for rule in spec["podFailurePolicy"]["rules"]}
            for rule in spec["podFailurePolicy"]["rules"]:
                codes = rule.get("onExitCodes")
                if codes:
                    self.assertEqual((codes["containerName"], codes["operator"]), (name, "In"))
                    rules[rule["action"]] += codes["values"]
                else:
                    self.assertEqual((rule["action"], rule["onPodConditions"]),
                                     ("Ignore", [{"type": "DisruptionTarget", "status": "True"}]))
            self.assertEqual(rules["FailJob"], [2], variant)
            self.assertLessEqual(set(rules.get("Ignore", ())), {75}, variant)
        self.assertEqual(rules.get("Ignore", [75]), [75])

    def test_coordinator_that_is_deployed_waits_for_all_ranks_and_stops_if_one_is_lost(self):
        objects = rendered("coordinator")
        ranks = job_spec(objects)
        self.assertEqual((ranks["completions"], ranks["parallelism"]), (RANKS, RANKS))
        container, = template(objects, "Deployment")["containers"]
        self.assertLessEqual({f"--world-size={RANKS}", "--on-loss=stop"}, set(container["args"]))
        self.assertEqual(container["readinessProbe"]["httpGet"]["path"], "/healthz")
        self.assertEqual(of_kind(objects, "Deployment")["spec"]["strategy"], {"type": "Recreate"})

    def test_metrics_have_the_labels_of_the_rules(self):
        index = "__meta_kubernetes_pod_annotation_batch_kubernetes_io_job_completion_index"
        run = {"sourceLabels": ["__meta_kubernetes_pod_label_job_name"], "targetLabel": "run"}
        monitor = of_kind(rendered("monitoring"), "PodMonitor")["spec"]
        self.assertEqual(
            {end["port"]: end["relabelings"] for end in monitor["podMetricsEndpoints"]},
            {"metrics": [run, {"replacement": "worker", "targetLabel": "program"},
                         {"sourceLabels": [index], "targetLabel": "rank"}],
             "page": [{"sourceLabels": [index], "regex": "0", "action": "keep"}, run,
                      {"replacement": "coordinator", "targetLabel": "program"}]})

    def test_options_programs_know_them(self):
        for variant, kind in (("base", None), ("coordinator", None), ("coordinator", "Deployment"),
                              ("jobset", None), ("trainjob", None)):
            container, = template(rendered(variant), kind)["containers"]
            program, = container["command"]
            help_text = subprocess.run([BIN / program, "--help"], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout
            known = set(re.findall(r"--[a-z-]+", help_text))
            given = {word.split("=")[0] for word in container["args"]}
            given |= {"--" + name[len("GRADWIRE_"):].lower().replace("_", "-")
                      for name in environment_of(container) if name.startswith("GRADWIRE_")}
            self.assertLessEqual(given, known, variant)

    def test_ports_services_and_probes_name_ports_of_the_pods(self):
        for variant, kind in (("base", None), ("coordinator", "Deployment"), ("jobset", None),
                              ("trainjob", None)):
            container, = template(rendered(variant), kind)["containers"]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            self.assertIn(container["readinessProbe"]["httpGet"]["port"], ports)
        self.assertEqual(str(ports["grpc"]), pet(0)["PET_MASTER_PORT"])
        worker, = template(rendered("base"))["containers"]
        ports = {port["name"]: port["containerPort"] for port in worker["ports"]}
        monitor = of_kind(rendered("monitoring"), "PodMonitor")
        self.assertLessEqual({end["port"] for end in monitor["spec"]["podMetricsEndpoints"]},
                             set(ports))
        for service in rendered("base"), rendered("monitoring"):
            for port in of_kind(service, "Service")["spec"]["ports"]:
                self.assertEqual(ports[port["name"]], port["port"])


class PodsTest(unittest.TestCase):
    """Each variant's pods, started per index as its controller would."""
    hashes = set()

    def setUp(self):
        if reason := pods.why_not():
            self.skipTest(f"did not run: {reason}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gradwire-pods-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)

    def check(self, all_pods, ranks):
        """All end well, and with the one hash that every other variant has."""
        codes, logs = pods.run(all_pods, BIN.parent, self.folder)
        self.assertEqual(codes, {pod.name: 0 for pod in all_pods}, logs)
        self.check_hashes(ranks)

    def check_hashes(self, ranks):
        summaries = [json.loads((pods.outside_of(self.folder, pod, "/results")
                                 / f"summary.{rank}.json").read_text())
                     for rank, pod in enumerate(ranks)]
        self.assertEqual([summary["rank"] for summary in summaries], list(range(RANKS)))
        PodsTest.hashes |= {summary["parameters_sha256"] for summary in summaries}
        self.assertEqual(len(PodsTest.hashes), 1, PodsTest.hashes)

    def test_base_rank_0_is_the_coordinator_one_hash(self):
        ranks = indexed(rendered("base"), "gradwire", "gradwire")
        self.check(ranks, ranks)
        print("parameters_sha256", *PodsTest.hashes)

    def test_coordinator_deployment_one_hash(self):
        objects = rendered("coordinator")
        ranks = indexed(objects, "gradwire", "gradwire")
        coordinator = pod_of("gradwire-coordinator", objects, template(objects, "Deployment"))
        coordinator.command.append("--linger-seconds=0")
        self.check([coordinator, *ranks], ranks)

    def test_jobset_one_hash(self):
        ranks = indexed(rendered("jobset"), "gradwire-ranks-0", "gradwire")
        self.check(ranks, ranks)

    def test_trainjob_one_hash(self):
        ranks = indexed(rendered("trainjob"), "gradwire-node-0", "gradwire", pet)
        self.check(ranks, ranks)

    def test_pods_that_start_again_continue_from_the_volume(self):
        """As the page says: two variables of rank 0, and a volume that outlives the pods."""
        objects = rendered("base")
        options = of_kind(objects, "ConfigMap")["data"]
        whole = options["run.ini"]
        for iterations in (8, 20):
            options["run.ini"] = whole.replace("iterations = 20", f"iterations = {iterations}")
            ranks = indexed(objects, "gradwire", "gradwire")
            ranks[0].environment |= {"GRADWIRE_RUN_DIR": "/results/run",
                                     "GRADWIRE_CHECKPOINT_EVERY": "4"}
            for pod in ranks:
                shutil.rmtree(self.folder / pod.name, ignore_errors=True)
            codes, logs = pods.run(ranks, BIN.parent, self.folder)
            self.assertEqual(set(codes.values()), {0}, logs)
        self.assertIn("resumes before step 8", logs["gradwire-0"])
        self.check_hashes(ranks)

    def test_wrong_option_every_pod_ends_with_2(self):
        objects = rendered("base")
        of_kind(objects, "ConfigMap")["data"]["run.ini"] += "sinc = ddp\n"
        codes, logs = pods.run(indexed(objects, "gradwire", "gradwire"), BIN.parent, self.folder)
        self.assertEqual(set(codes.values()), {2})
        self.assertIn("did you mean sync?", logs["gradwire-0"])

    def test_system_cannot_be_written_to(self):
        objects = rendered("base")
        pod = indexed(objects, "gradwire", "gradwire")[0]
        pod.command = ["sh", "-c", "id -u; touch /etc/x /usr/x /x; touch /results/x /tmp/x; ls /tmp"]
        codes, logs = pods.run([pod], BIN.parent, self.folder)
        self.assertEqual(codes, {pod.name: 0})
        self.assertEqual(logs[pod.name].count("cannot touch"), 3, logs)
        self.assertTrue(logs[pod.name].startswith("65532\n"))


if __name__ == "__main__":
    unittest.main()
