"""deploy/slurm with stand-ins for srun, scontrol, curl and our programs."""
import os
import pathlib
import shutil
import tempfile
import unittest

from stand_ins import DEPLOY, Scripts


class Slurm(Scripts):
    """deploy/slurm/*.sbatch as job 7 with 3 tasks. `CODES_OF`: the exit codes of the workers by rank;
    srun's own code is that of the first of them that failed; `COORDINATOR`: that of the coordinator."""

    def setUp(self):
        super().setUp()
        self.script("bin/gradwire-coordinator",
                    'while [ "$1" != --port-file ]; do shift; done\necho why it ended >&2\n'
                    '[ -z "$NO_PORTS" ] || exit "$COORDINATOR"\n'
                    'printf "grpc=0.0.0.0:11\\nmetrics=0.0.0.0:22\\n" >"$2"\nexit "$COORDINATOR"')
        self.script("bin/gradwire-worker", 'set -- $CODES_OF; shift "$SLURM_PROCID"\n'
                    'echo "$SLURM_PROCID $GRADWIRE_COORDINATOR" >>"$LOG"\n'
                    'exit "$1"')
        self.script("bin/srun", 'while [ "$1" != bash ]; do shift; done; worst=0\nfor r in 0 1 2; do\n'
                    'SLURM_PROCID=$r "$@"; code=$?; [ $worst -ne 0 ] || worst=$code; done; exit $worst')
        self.script("bin/scontrol", 'echo "scontrol $*" >>"$LOG"')
        self.script("bin/curl", "")
        self.environment.update(SLURM_JOB_ID="7", SLURM_SUBMIT_DIR=str(self.folder), SLURM_NTASKS="3",
                                SLURMD_NODENAME="node1", COORDINATOR="0", CODES_OF="0 0 0")

    def run_job(self, name="gradwire.sbatch", keep=False, **environment):
        """Its exit code, and whether the job was queued again. `keep`: what an earlier start has left."""
        self.log.write_text("")
        if not keep:
            shutil.rmtree(self.folder / "gradwire-7", ignore_errors=True)
        code, self.said = self.run_script("/bin/bash", DEPLOY / "slurm" / name, **environment)
        return code, "scontrol requeue 7\n" in self.log.read_text()

    def test_exit_code_is_the_most_telling_one_of_all_tasks(self):
        for name in ("gradwire.sbatch", "gradwire-rank0.sbatch"):
            for codes, expected in (("0 0 0", 0), ("1 75 2", 2), ("1 0 75", 75), ("12 1 0", 1)):
                with self.subTest(f"{name}, {codes}"):
                    self.assertEqual(self.run_job(name, CODES_OF=codes),
                                     (expected, expected == 75), self.said)

    def test_codes_of_an_earlier_start_do_not_count(self):
        for name in ("gradwire.sbatch", "gradwire-rank0.sbatch"):
            self.run_job(name, CODES_OF="1 75 2")
            self.assertEqual(self.run_job(name, keep=True, CODES_OF="1 0 0", SLURM_RESTART_COUNT="1"),
                             (1, False))

    def test_job_is_queued_again_as_often_as_told(self):
        for name in ("gradwire.sbatch", "gradwire-rank0.sbatch"):
            for most, more in ((3, {}), (1, {"MAX_REQUEUES": "1"}), (0, {"MAX_REQUEUES": "0"})):
                for before in range(most + 1):
                    with self.subTest(f"{name}, {before} of {most}"):
                        self.assertEqual(self.run_job(name, keep=before > 0, CODES_OF="75 0 0",
                                                      SLURM_RESTART_COUNT=str(before), **more),
                                         (75, before < most))

    def test_restarts_that_no_75_caused_do_not_count(self):
        for name in ("gradwire.sbatch", "gradwire-rank0.sbatch"):
            self.assertEqual(self.run_job(name, CODES_OF="75 0 0", SLURM_RESTART_COUNT="7"), (75, True))

    def test_signal_before_the_time_limit_while_the_coordinator_lingers_changes_nothing(self):
        self.script("bin/srun", 'echo $$ >srun')
        # The script waits for the coordinator alone once it has collected srun.
        self.script("bin/gradwire-coordinator", 'while [ "$1" != --port-file ]; do shift; done\n'
                    'printf "grpc=0.0.0.0:11\\nmetrics=0.0.0.0:22\\n" >"$2"\n'
                    'until [ -s srun ]; do sleep 0.05; done\n'
                    'while kill -0 "$(cat srun)" 2>/dev/null; do sleep 0.05; done\n'
                    'sleep 0.2; kill -USR1 $PPID; sleep 0.2')
        self.assertEqual(self.run_job(), (0, False), self.said)

    def test_checkpoint_before_a_damaged_one_or_in_its_place_queues_the_job_again(self):
        self.script("bin/srun", 'echo $$ >srun; while :; do sleep 0.05; done')
        self.script("bin/gradwire-coordinator", 'while [ "$1" != --port-file ]; do shift; done\n'
                    'printf "grpc=0.0.0.0:11\\nmetrics=0.0.0.0:22\\n" >"$2"\n'
                    'folder=$GRADWIRE_RUN_DIR/$MADE; trap "exit 143" TERM\n'
                    'trap \'mkdir -p "$folder"; echo >"$folder/manifest.json"\' USR1\n'
                    'until [ -s srun ]; do sleep 0.05; done; kill -USR1 $PPID\n'
                    'while :; do sleep 0.05; done')
        for made in ("step-000000001500", "step-000000002000"):
            with self.subTest(made), tempfile.TemporaryDirectory() as run_dir:
                for number, name in enumerate(("step-000000001000", "step-000000002000")):
                    manifest = pathlib.Path(run_dir, name, "manifest.json")
                    manifest.parent.mkdir()
                    manifest.write_text("")
                    os.utime(manifest, (number + 1, number + 1))
                (self.folder / "srun").unlink(missing_ok=True)
                self.assertEqual(self.run_job(GRADWIRE_RUN_DIR=run_dir, MADE=made,
                                              CHECKPOINT_SECONDS="5"), (143, True), self.said)
                self.assertIn(f"to continue from {made}\n", self.said)

    def test_coordinators_code_counts_where_no_worker_failed(self):
        self.assertEqual(self.run_job(COORDINATOR="1"), (1, False))
        self.assertEqual(self.run_job(COORDINATOR="1", CODES_OF="75 0 0"), (75, True))

    def test_coordinator_that_does_not_start_is_told_with_its_code(self):
        self.assertEqual(self.run_job(NO_PORTS="1", COORDINATOR="2"), (2, False))
        self.assertIn("why it ended\n", self.said)
        self.assertNotIn("coordinator at", self.said)

    def targets(self, **environment):
        """Runs a job whose workers end once curl has been asked for the targets. Returns for each page
        the arguments of curl and what it read."""
        self.script("bin/curl", 'for url; do :; done; page=${url##*/}\n'
                    'printf "%s\\n" "$*" >"$page.asked"; timeout 5 cat >>"$page.asked"\n'
                    'case $page in sd) echo targets; : >done ;; esac')
        self.script("bin/gradwire-worker", "for i in $(seq 200); do [ -e done ] && break; sleep 0.05; done")
        (self.folder / "done").unlink(missing_ok=True)
        self.assertEqual(self.run_job(**environment), (0, False), self.said)
        return [(self.folder / f"{page}.asked").read_text() for page in ("readyz", "sd")]

    def test_targets_are_read_over_tls_and_with_the_token(self):
        self.assertEqual(self.targets(), ["-sf http://node1:22/readyz\n", "-sf http://node1:22/sd\n"])
        tls = {"GRADWIRE_TLS_CERT": "c", "GRADWIRE_TLS_KEY": "k", "GRADWIRE_TLS_CA": "a"}
        options = "-sf --cert c --key k --cacert a"
        self.assertEqual(self.targets(**tls)[1], f"{options} https://node1:22/sd\n")
        self.assertIn("live page at https://node1:22/\n", self.said)
        self.assertEqual(self.targets(**tls, GRADWIRE_PLAIN_HTTP="true")[1], "-sf http://node1:22/sd\n")
        (self.folder / "token").write_text("secret\n")
        token = {"GRADWIRE_TOKEN_FILE": str(self.folder / "token")}
        self.assertEqual(self.targets(**token)[1], "-sf http://node1:22/sd\n")
        self.assertEqual(self.targets(**token, GRADWIRE_HTTP_TOKEN="1")[1],
                         "-sf --header @- http://node1:22/sd\nAuthorization: Bearer secret\n")

    def test_targets_that_cannot_be_read_are_told(self):
        self.script("bin/curl", ": >done; exit 60")
        self.script("bin/gradwire-worker", "for i in $(seq 200); do [ -e done ] && break; sleep 0.05; done\n"
                    "sleep 2")
        self.assertEqual(self.run_job(), (0, False), self.said)
        self.assertIn("curl could not read http://node1:22/readyz (exit code 60), so no targets are written "
                      "for Prometheus\n", self.said)

    def test_workers_connect_where_the_coordinator_is(self):
        for environment, address in (({}, "node1:11"), ({"COORDINATOR_HOST": "10.1.1.1"}, "10.1.1.1:11")):
            self.run_job(**environment)
            self.assertEqual(self.log.read_text(), "".join(f"{rank} {address}\n" for rank in range(3)))
            self.assertIn(f"coordinator at {address}, live page at http://{address[:-2]}22/", self.said)
        for environment, address in (({}, "node1:20007"), ({"PORT": "33"}, "node1:33")):
            self.run_job("gradwire-rank0.sbatch", **environment)
            self.assertTrue(self.log.read_text().startswith(f"0 {address}\n"))

    def test_programs_get_their_options(self):
        for name in ("gradwire-coordinator", "gradwire-worker", "srun"):
            file = self.folder / "bin" / name
            file.write_text(file.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "{name} $*" >>calls\n'))
        out = self.folder / "gradwire-7"
        files = f"--summary {out}/summary.{{rank}}.json --log-jsonl {out}/log.{{rank}}.jsonl"
        for name, environment, expected in (
                ("gradwire.sbatch", {}, [
                    "gradwire-coordinator --world-size 3 --on-loss stop --listen 0.0.0.0:0 --metrics "
                    f"0.0.0.0:0 --port-file {out}/ports",
                    f"gradwire-worker --metrics 0.0.0.0:0 {files} --lr 0.1"]),
                ("gradwire.sbatch", {"PORT": "33", "METRICS_PORT": "44", "COORDINATOR_HOST": "h",
                                     "SLURM_CPUS_PER_TASK": "8"}, [
                    "gradwire-coordinator --world-size 3 --on-loss stop --listen h:33 --metrics h:44 "
                    f"--port-file {out}/ports", " --cpus-per-task=8 bash "]),
                ("gradwire-rank0.sbatch", {"METRICS_PORT": "44"}, [
                    "gradwire-worker --host-coordinator --coordinator-metrics 0.0.0.0:44 --metrics "
                    f"0.0.0.0:0 {files} --lr 0.1"])):
            (self.folder / "calls").unlink(missing_ok=True)
            shutil.rmtree(out, ignore_errors=True)
            code, said = self.run_script("/bin/bash", DEPLOY / "slurm" / name, "--lr", "0.1", **environment)
            self.assertEqual(code, 0, said)
            for words in expected:
                self.assertIn(words, (self.folder / "calls").read_text())
        tasks = {"SLURM_NTASKS": "", "SLURM_JOB_NUM_NODES": "2"}
        self.run_job(**tasks)
        self.assertIn(" --world-size 2 ", (self.folder / "calls").read_text())

    def test_targets_are_in_their_folder_while_the_job_runs(self):
        for environment, folder in (({}, self.folder), ({"TARGETS_DIR": "there"}, self.folder / "there")):
            folder.mkdir(exist_ok=True)
            # The workers end when the targets are there.
            file = folder / "gradwire-7.targets.json"
            self.script("bin/curl", 'case $* in */sd) echo targets ;; esac')
            self.script("bin/gradwire-worker", f"for i in $(seq 200); do [ -e {file} ] && break; "
                        f"sleep 0.05; done; cp {file} seen")
            (self.folder / "seen").unlink(missing_ok=True)
            self.assertEqual(self.run_job(**environment), (0, False), self.said)
            self.assertEqual((self.folder / "seen").read_text(), "targets\n")
            self.assertFalse(file.exists())

    def test_outside_of_slurm_nothing_starts(self):
        for name in ("gradwire.sbatch", "gradwire-rank0.sbatch"):
            self.assertEqual(self.run_job(name, SLURM_JOB_ID=""), (2, False))
            self.assertIn(f"{name}: got no SLURM_JOB_ID; start this script with sbatch\n", self.said)


if __name__ == "__main__":
    unittest.main()
