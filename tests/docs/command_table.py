"""How commands_test.py runs the commands of README.md and docs/, and which it cannot run.

Everything that is changed about a command, or kept from running, is here. A row that fits nothing
fails the test.
"""

# The reasons, as the test prints them.
HOSTS = "needs other hosts"
ENGINE = "needs a scheduler, a container engine or another server"
ROOT = "changes the system"
NETWORK = "needs the internet"
BUILD = "builds for minutes"
MINUTES = "takes minutes"
ELSEWHERE = "is run by another test"
ENDLESS = "has no end of its own"
MISSING = "needs a program or library that tests/run does not install"
EXTENSION = "is run with its change by tests/long/recipes_test.py"
RECIPE = "needs the change of a recipe"
CHANGED = (EXTENSION, RECIPE)  # programs that know more names than those of the build
PART = "is a part of a command"

# Commands with these programs are not run.
PROGRAMS = {
    "ansible-playbook": HOSTS, "ssh": HOSTS, "ssh-keygen": HOSTS, "ssh-copy-id": HOSTS, "scp": HOSTS,
    "deploy/provision": HOSTS,
    "docker": ENGINE, "grafana": ENGINE, "kubectl": ENGINE, "podman": ENGINE,
    "podman-compose": ENGINE, "prometheus": ENGINE, "sbatch": ENGINE,
    "scontrol": ENGINE, "sinfo": ENGINE, "squeue": ENGINE, "srun": ENGINE,
    "apt-get": ROOT, "sudo": ROOT, "ip": ROOT, "journalctl": ROOT, "man": ROOT, "systemctl": ROOT,
    "deploy/install-packages": ROOT, "tests/support/debian-chroot": ROOT, "deploy/images": ROOT,
    "git": NETWORK, "deploy/fetch-cifar10": NETWORK,
    "cmake": BUILD, "deploy/release": BUILD, "bench/library/compare.py": BUILD,
    "build/fuzz/bin/session_fuzzer": BUILD,
    "deploy/quickstart": MINUTES, "tests/run": MINUTES, "tests/mutate": MINUTES,
    "bench/observing.py": MINUTES, "tests/strangers/attack.py": MINUTES,
    "mpirun": ELSEWHERE, "torchrun": ELSEWHERE,  # tests/launchers, tests/mpi, tests/engines
    "deploy/observe": ENDLESS, "tail": ENDLESS,
    "bench/blas.py": MISSING, "grpc_health_probe": MISSING, "grpcurl": MISSING}

# (page, first words of a command): why it is not run.
LINES = {
    ("README.md", "build/bin/gradwire doctor --hostfile"): HOSTS,
    ("README.md", "build/bin/gradwire launch --hostfile"): HOSTS,
    ("docs/deploy/hosts.md", "build/bin/gradwire doctor --hostfile"): HOSTS,
    ("docs/deploy/hosts.md", "build/bin/gradwire launch --hostfile"): HOSTS,
    # tests/hosts/cloudlab_test.py
    ("docs/deploy/cloudlab.md", "printf '10.10.1"): ELSEWHERE,
    ("docs/deploy/cloudlab.md", "build/bin/gradwire doctor --hostfile"): ELSEWHERE,
    ("docs/deploy/cloudlab.md", "build/bin/gradwire launch --hostfile"): ELSEWHERE,
    ("docs/deploy/cloudlab.md", "build/bin/gradwire-worker --master-ip"): ELSEWHERE,
    ("docs/deploy/cloudlab.md", "build/bin/gradwire experiment course"): HOSTS,
    ("docs/deploy/ansible.md", "cp deploy/ansible/inventory.example.ini"): HOSTS,
    ("docs/deploy/slurm.md", "grep -ho"): ENGINE,
    ("docs/deploy/mpi.md", "build/bin/gradwire launch --workers 4"): ELSEWHERE,
    ("docs/deploy/mpi.md", "build/bin/gradwire bench collectives"): ELSEWHERE,
    ("docs/tasks/several-hosts.md", "printf '10.10.1"): HOSTS,
    ("docs/tasks/slow-run.md", "build/bin/gradwire launch --hostfile"): HOSTS,
    ("docs/tasks/several-hosts.md", "build/bin/gradwire doctor --hostfile"): HOSTS,
    ("docs/tasks/several-hosts.md", "build/bin/gradwire launch --hostfile"): HOSTS,
    ("docs/tasks/several-hosts.md", "deploy/make-certificates gradwire-0"): ENGINE,
    ("docs/tasks/several-hosts.md", "cp -r certificates"): ENGINE,
    ("docs/tasks/several-hosts.md", "rm deploy/kubernetes"): ENGINE,
    ("docs/tasks/which-method.md", "build/bin/gradwire launch --hostfile"): HOSTS,
    ("docs/tasks/own-method.md", "build/bin/gradwire launch --workers 4 --summary mine"): RECIPE,
    ("docs/tasks/own-method.md", "grep -ho"): RECIPE,
    ("docs/tasks/own-method.md", "for method in"): RECIPE,
    ("docs/tasks/own-method.md", "build/bin/gradwire bench training --hosts auto"): RECIPE,
    ("docs/tasks/own-method.md", "build/bin/gradwire launch --workers 2 -- --model lenet --dataset"):
        RECIPE,
    ("docs/tasks/own-program.md", "gradwire launch --workers 4 --program"): BUILD,
    ("docs/tasks/own-program.md", "gradwire launch --workers 4 --metrics"): BUILD,
    ("docs/tasks/own-program.md", "gradwire launch --workers 4 --run-dir"): BUILD,
    ("docs/tasks/own-program.md", "gradwire status 127"): BUILD,
    ("docs/tasks/own-program.md", "kill -9"): BUILD,
    ("docs/library.md", "gradwire launch --workers 4 --run-dir kept"): BUILD,
    ("docs/experiments.md", "build/bin/gradwire experiment course"): MINUTES,
    ("docs/experiments.md", "gradwire experiment course --scale quick"): MINUTES,
    ("docs/experiments.md", "gradwire experiment course --scale full"): HOSTS,
    ("docs/tasks/course.md", "build/bin/gradwire experiment course"): MINUTES,
    ("docs/tasks/course.md", "build/bin/gradwire experiment collectives"): MINUTES,
    ("README.md", "build/bin/gradwire experiment course"): MINUTES,
    ("docs/results.md", "gradwire experiment NAME"): MINUTES,
    ("docs/results.md", "gradwire bench training --workers 4 --dataset synthetic"): MINUTES,
    ("docs/results.md", "gradwire launch --hostfile"): HOSTS,
    ("docs/results.md", "D=/usr/lib"): MISSING,
    ("docs/results.md", "bench/recovery.py"): ELSEWHERE,
    ("docs/results.md", "gradwire bench collectives --workers 4 --backends memory"): ELSEWHERE,  # tests/integration
    ("docs/development.md", "build/bin/simulate --plant all"): ELSEWHERE,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model small --dataset fashion"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --dataset stripes"): EXTENSION,
    ("docs/extending.md", "mkdir digits"): EXTENSION,
    ("docs/extending.md", "awk 'BEGIN"): EXTENSION,
    ("docs/extending.md", "cp digits/train.csv"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --dataset digits"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --sync first"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 3 --summary"): EXTENSION,
    ("docs/extending.md", "test $(grep -ho"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --backend sharded"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 4 -- --model lenet --backend star"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --backend logged"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 4 -- --model lenet --backend everyone"): EXTENSION,
    ("docs/extending.md", "gradwire launch --workers 2 -- --model lenet --iterations 5 --label"):
        EXTENSION,
    ("docs/extending.md", 'test $(grep -c "this is my first"'): EXTENSION,
    ("docs/extending.md", "grep -q '\"wrong\":'"): EXTENSION,
    ("docs/extending.md", "gradwire experiment claims inference"): EXTENSION}

# For the options of commands that are not run, and of a page's words in those that are.
PLACEHOLDERS = {"RATE": "1gbit", "NAME": "course", "SYNC": "ddp", "N": "2", "W": "4",
                "R": "0", "$R": "0", "$N": "2", "$n": "2", "DIR": "cifar10", "FILE": "run.json",
                "BACKEND": "ring", "OUT": "out"}

# What makes all runs small, unless a command says otherwise.
SMALL = {"GRADWIRE_MODEL": "lenet", "GRADWIRE_BATCH_SIZE": "8", "GRADWIRE_ITERATIONS": "2",
         "GRADWIRE_THREADS": "1", "GRADWIRE_SIZES": "4096", "GRADWIRE_WARMUP": "1",
         "GRADWIRE_SETUPS": "ddp,gloo-ddp", "GRADWIRE_METRICS": "127.0.0.1:0"}
# Sizes, addresses and words that stand for something, in all commands. @HOST@ is an address of the
# loopback network that belongs to the page, so that pages do not meet at a port.
EVERYWHERE = [
    (r"--iterations \d+", "--iterations 2"), (r"--epochs \d+", "--iterations 2"),
    (r"--batch-size \d+", "--batch-size 8"), (r"--sizes [\w,]+", "--sizes 4096"),
    (r"--rounds \d+", "--rounds 1"), (r"--warmup \d+", "--warmup 1"),
    (r"--linger-seconds \d+", "--linger-seconds 0"),
    (r"--seeds 0:\d+", "--seeds 0:20"), (r"--model vgg11(?=.*--dataset)", "--model lenet"),
    (r"GRADWIRE_FLIPS=\d+", "GRADWIRE_FLIPS=10"),
    (r"\b10\.10\.1\.1\b", "@HOST@"), (r"\b10\.10\.1\.2\b", "127.0.0.1"),
    (r"\b127\.0\.0\.1:9400\b", "@HOST@:9400"), (r"(?<!\S)DIR\b", "cifar10"), (r"\bSYNC\b", "ddp"),
    (r"\bBACKEND\b", "ring"), (r"--workers N\b", "--workers 2"), (r"\bFILE\b", "run.json")]

# In the shell of each page. `all` waits for the programs that were started with BEHIND, and `once`
# repeats a command until it ends well; `trains` is for one that shows a run.
PRELUDE = """set -e -o pipefail
started=()
all() { for each in "${started[@]}"; do wait "$each"; done; started=(); }
once() { for try in {1..300}; do if "$@"; then return; fi; sleep 0.1; done; return 1; }
trains() { "$@" >shown && cat shown && grep -q "^step .* of " shown; }
"""
BEHIND = ' & started+=("$!")'
RANKS = [(r"^(.*gradwire-worker .*--rank) R\b(.*)$",
          rf"for R in 0 1 2 3; do \1 $R\2{BEHIND}; done; all")]
COORDINATOR = [(r"^(.*gradwire-coordinator .*)$", rf"\1{BEHIND}")]
TWO_WORKERS = [(r"^(gradwire-worker .*)$", rf"\1{BEHIND}; \1{BEHIND}; all")]
STATUS = "build/bin/gradwire status @HOST@:9400"
WATCHED = ("build/bin/gradwire launch --workers 3 --metrics @HOST@:9400 -- --dataset cifar10 "
           f"--data-dir cifar10 --iterations 300{BEHIND}; once trains {STATUS}\n")
# (page, first words of a command in a block): further changes to it, in this order.
CHANGES = {
    ("README.md", "build/bin/gradwire-coordinator"): COORDINATOR + RANKS,
    ("README.md", "for n in 4 2"): [  # "one line"
        (r"uniq -c$", "uniq -c >hashes; test $(wc -l <hashes) = 1")],
    ("docs/measuring.md", "build/bin/gradwire plan --model mlp"): [  # in place of the two hosts
        (r"\A", "build/bin/gradwire launch --workers 2 --summary n0.json -- --model mlp "
               "--dataset synthetic --shared-memory off\n")],
    ("docs/observability.md", "/usr/bin/python3"): [
        (r"\A", """echo '{"stem": "out", "figures": [{"name": "loss", "kind": "lines", "title": "Loss",
            "x_label": "step", "y_label": "loss", "series": [{"x": [1, 2], "y": [2, 1]}]}]}' >run.json
""")],
    ("docs/operations.md", "build/bin/gradwire-coordinator"): [
        (r"^(.*)$", rf"{{ \1; \1; }}{BEHIND}")],
    ("docs/operations.md", "build/bin/gradwire-worker"): [
        (RANKS[0][0], RANKS[0][1].replace("started", "ranks").replace(
            "; all", '; for each in "${ranks[@]}"; do wait "$each"; done; ranks=()'))],
    ("docs/options.md", "gradwire launch --workers 4 -- --model resnet18"): [
        (r"\A", "gradwire launch -- --sync none --model resnet18 --image-size 64 --iterations 1 "
               "--save-weights resnet18.pth\n")],
    ("docs/security.md", "(umask 077"): COORDINATOR + TWO_WORKERS + [
        (r"^(gradwire-coordinator)", r"\1 --listen @HOST@:29400"), (r"\bHOST:", "@HOST@:")],
    ("docs/security.md", "deploy/make-certificates"): COORDINATOR + TWO_WORKERS,
    ("docs/tasks/several-hosts.md", "deploy/make-certificates node0,10"): [
        (r"node0,@HOST@", "node0,@HOST@,127.0.0.1")],
    ("docs/tasks/several-hosts.md", "export GRADWIRE_TLS_CERT"): [  # in place of ssh and scp
        (r"\A", "mkdir gradwire-tls; cp certificates/ca.pem token gradwire-tls\n"
               "for end in pem key; do cp certificates/node0.$end gradwire-tls/host.$end; done\n")],
    ("docs/tasks/several-hosts.md", "build/bin/gradwire-coordinator --world-size 4 --listen 10"):
        COORDINATOR,
    ("docs/tasks/several-hosts.md", "build/bin/gradwire-worker"): [
        (r"^(.*gradwire-worker .*)$", rf"for R in 0 1 2 3; do \1{BEHIND}; done; all")],
    ("docs/tasks/several-hosts.md", "deploy/make-certificates --out try"): [
        (r"node0,127\.0\.0\.1", "node0,127.0.0.1,@HOST@"), (r"127\.0\.0\.1:29400", "@HOST@:29400")],
    ("docs/tasks/several-hosts.md", "grep -ho"): [
        (r"uniq -c$", "uniq -c >hashes; test $(wc -l <hashes) = 1")],
    ("docs/tasks/course.md", "grep -ho"): [
        (r"\A", "for part in 2a:gather-scatter 2b:all-reduce 3:ddp; do\n"
               "  build/bin/gradwire launch --workers 2 --summary ${part%:*}.json -- --sync ${part#*:} "
               "--dataset synthetic\ndone\n"), (r"uniq -c$", "uniq -c >hashes; test $(wc -l <hashes) = 1")],
    ("docs/tasks/host-died.md", "build/bin/gradwire launch --workers 3 --metrics"): [
        (r"--iterations 2", "--iterations 500"), (r"\Z", BEHIND)],
    ("docs/tasks/host-died.md", "build/bin/gradwire status"): [
        (r"^(.*status \S+)$", r"once trains \1"),
        (r"\bPID\b", f"$({STATUS} | awk '$1 == 2 {{print $NF}}')")],
    ("docs/tasks/host-died.md", "build/bin/gradwire launch --workers 3 --summary"): [
        (r"\A", "all\n"), (r"--iterations 2", "--iterations 500"),
        (r"uniq -c$", "uniq -c >hashes; test $(wc -l <hashes) = 1")],
    ("docs/tasks/slow-run.md", "build/bin/gradwire launch --workers 3 --metrics"): [
        (r"--iterations 2", "--iterations 300"), (r"\Z", BEHIND)],
    ("docs/tasks/slow-run.md", "build/bin/gradwire status 127"): [
        (r"^(.*status \S+)$", r"once trains \1"),
        (r"^(while )", rf"slow=$({STATUS} | awk '$1 == 2 {{print $NF}}')\n\1"),
        (r"\bPID\b", "$slow"), (r"\Z", "\nall")],
    ("docs/tasks/slow-run.md", "build/bin/gradwire status ADDRESS"): [
        (r"\A", WATCHED), (r"ADDRESS", "@HOST@:9400"), (r"\Z", "\nall")]}

# (page, first words of a block of output): in the output of the page's commands.
EXPECTED = [("docs/tasks/host-died.md", "gradwire launch: rank 2"),
            ("docs/tasks/slow-run.md", "rank  iteration ms")]

# (page, as printed): what would be right. Commands that fail as they are printed.
KNOWN = {}
