"""A Slurm of a controller and some nodes, each on a host of its own (namespace_hosts)."""
import contextlib
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from namespace_hosts import Hosts, wait_until

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch"]
# Two partitions over the same nodes: jobs of `urgent` take those of `usual`.
CONFIGURATION = """ClusterName=test
SlurmctldHost={login}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=10
ReturnToService=2
NodeName=node[1-{nodes}] CPUs=2 RealMemory=100
PartitionName=usual Nodes=ALL Default=YES MaxTime=10 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=10 PriorityTier=9
"""
# slurmd wants something there, and leaves it alone.
CGROUP_CONFIGURATION = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"
OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"}


class SlurmCluster:
    """Nodes node1 and so on, and `login`, where the controller is; there within `with`. SkipTest
    where it cannot be. `environment`: of all programs on it."""

    def __init__(self, nodes, environment):
        self.nodes = range(nodes)
        self.login = nodes
        self.folder = None  # jobs are submitted here
        self._environment = environment
        self._hosts = Hosts(nodes + 1, "node")
        self._hosts.names[self.login] = "login"
        self._ends = contextlib.ExitStack()

    def __enter__(self):
        # Daemons are in sbin, which is not in every user's PATH.
        os.environ["PATH"] += ":/usr/sbin"
        if missing := [program for program in PROGRAMS if not shutil.which(program)]:
            raise unittest.SkipTest(f"{', '.join(missing)} not there (apt-get install slurmctld "
                                    "slurmd slurm-client munge)")
        with contextlib.ExitStack() as ends:
            self.folder = pathlib.Path(ends.enter_context(
                tempfile.TemporaryDirectory(prefix="gradwire-slurm-")))
            ends.enter_context(self._hosts)
            self._start()
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()

    def run(self, *command, host=None, **options):
        """On the login host, or a node; what it prints."""
        return self._hosts.run(self.login if host is None else host, command, cwd=self.folder,
                               env=self._environment, **options).stdout

    def submit(self, *arguments, **variables):
        """The number of a job that sbatch got so."""
        return self._hosts.run(self.login, ["sbatch", "--parsable", *arguments], cwd=self.folder,
                               env=self._environment | variables).stdout.strip()

    def job(self, number):
        """What scontrol says of it: {"JobState": "RUNNING", ...}."""
        return dict(re.findall(r"(\w+)=(\S+)", self.run("scontrol", "show", "job", number)))

    def wait_for(self, number, states, seconds=120):
        """The job, once it is in one of these states; AssertionError with its log if that does not
        come."""
        try:
            return wait_until(f"{states} of job {number}", lambda: self._job_in(number, states),
                              seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.job(number)}\n{self.log(number)}") from None

    def end_of(self, number, seconds=120):
        return self.wait_for(number, OVER, seconds)

    def log(self, number):
        file = self.folder / f"gradwire-{number}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def jobs_processes(self, node):
        """Of all jobs, as Hosts.processes."""
        return {pid: line for pid, line in self._hosts.processes(node).items()
                if not re.match(r"\S*slurmd( |$)", line)}

    def leftovers(self):
        """Names of nodes with what still runs there of jobs."""
        found = {self._hosts.names[node]: self.jobs_processes(node) for node in self.nodes}
        return {name: processes for name, processes in found.items() if processes}

    def _job_in(self, number, states):
        job = self.job(number)
        return job if job["JobState"] in states else None

    def _start(self):
        (self.folder / "state").mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        configuration = CONFIGURATION.format(login="login", folder=self.folder,
                                             nodes=len(self.nodes))
        (self.folder / "slurm.conf").write_text(configuration)
        (self.folder / "cgroup.conf").write_text(CGROUP_CONFIGURATION)
        self._environment = self._environment | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        munge = {name: self.folder / f"munge.{name}" for name in ("socket", "key", "log", "pid",
                                                                   "seed")}
        self._daemon(self.login, "munged", "--foreground", "--force", "--socket", munge["socket"],
                     "--key-file", munge["key"], "--log-file", munge["log"],
                     "--pid-file", munge["pid"], "--seed-file", munge["seed"])
        wait_until("munged", munge["socket"].exists, 30)
        self._daemon(self.login, "slurmctld", "-D")
        for node in self.nodes:
            self.run("mount", "-t", "tmpfs", "none", "/sys/fs/cgroup", host=node)
            self._daemon(node, "slurmd", "-D", "-N", self._hosts.names[node])
        wait_until("all nodes", self._all_idle, 60)

    def _daemon(self, host, *command):
        log = self.folder / f"{command[0]}.{self._hosts.names[host]}.log"
        self._hosts.start(host, command, log, env=self._environment, cwd=self.folder)

    def _all_idle(self):
        states = self.run("sinfo", "--noheader", "--Node", "--partition", "usual", "--format", "%T",
                          check=False).split()
        return states == ["idle"] * len(self.nodes)
