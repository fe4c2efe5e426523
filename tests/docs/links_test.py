"""README.md and docs/: links lead somewhere, files that are named exist, and so do options. The protocol
number is that of the sources."""
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GRADWIRE_BIN_DIR", SOURCE / "build/bin"))
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
# A path of the sources: with a folder that is there, and an ending.
PATH = re.compile(r"`((?:common|coordinator|worker|library|include|cli|bench|deploy|proto|tests|docs|"
                  r"examples|programs)/[\w/.-]*\.\w+)`")
# The coordinator's message to a peer with another protocol: its own number and version.
PROTOCOL = re.compile(r"got protocol \d+ \([^)]*\), expected (\d+) \(([^)]*)\)")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z_-]+[a-z])")
HELP = [["gradwire-worker"], ["gradwire-coordinator"],
        *(["gradwire", command] for command in
          ("bench", "doctor", "env", "experiment", "launch", "ledger", "models", "plan", "report", "status",
           "trace")),
        ["gradwire", "bench", "training"], ["gradwire", "bench", "collectives"],
        *(["gradwire", "checkpoint", command] for command in ("list", "verify", "export"))]
SCRIPTS = sorted(file for folder in ("deploy", "tests", "bench")
                 for file in (SOURCE / folder).iterdir() if file.is_file() and os.access(file, os.X_OK))
# Of other programs.
OTHERS = {
    "cmake, ctest, test programs": {"preset", "build", "install", "prefix", "parallel", "target",
                                    "test-dir", "component", "exclude-regex", "gtest_filter",
                                    "plant", "seeds"},
    "mpirun": {"allow-run-as-root", "bind-to", "map-by", "mca", "output-filename",
               "oversubscribe", "report-bindings", "tag-output"},
    "srun, sbatch, sacct": {"cpus-per-task", "export", "kill-on-bad-exit", "mpi", "no-requeue", "nodes", "ntasks",
                            "ntasks-per-node", "open-mode", "requeue", "signal", "start", "time", "wrap"},
    "torchrun": {"local_addr", "master_addr", "master_port", "max_restarts", "nnodes", "no_python",
                 "node_rank", "nproc_per_node", "rdzv_backend", "rdzv_conf", "rdzv_endpoint", "rdzv_id",
                 "redirects", "tee"},
    "kubectl": {"for", "previous", "tail", "timeout"},
    "podman, podman-compose": {"cgroup-manager", "change", "format", "ip", "no-build", "runtime",
                               "volumes"},
    "systemctl, journalctl": {"follow", "unit"},
    "prometheus, curl": {"cacert", "cert", "key", "storage", "web"},
    "the peers, and an attack of the tests": {"alone", "master", "mode"},
    "a misspelled one, as an example": {"sinc"}}


def anchors(page):
    """Of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text())
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def helps():
    """What all programs and scripts print for --help."""
    commands = [[BIN / command[0], *command[1:], "--help"] for command in HELP]
    commands += [[script, "--help"] for script in SCRIPTS]
    return "".join(subprocess.run(command, capture_output=True, text=True, check=True,
                                  stdin=subprocess.DEVNULL).stdout for command in commands)


class LinksTest(unittest.TestCase):
    def test_links_lead_to_a_page_and_a_heading(self):
        wrong = []
        for page in PAGES:
            for link in LINK.findall(FENCE.sub("", page.read_text())):
                if "://" in link or link.startswith("mailto:"):
                    continue
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                if not target.exists() or anchor and anchor not in anchors(target):
                    wrong.append(f"{page.relative_to(SOURCE)}: {link}")
        self.assertEqual(wrong, [])

    def test_files_that_are_named_exist(self):
        wrong = [f"{page.relative_to(SOURCE)}: {path}" for page in PAGES
                 if page.name != "extending.md"  # names what a reader is to add
                 for path in PATH.findall(page.read_text()) if not (SOURCE / path).exists()]
        self.assertEqual(wrong, [])

    def test_protocol_number_is_that_of_the_sources(self):
        number = re.search(r"kProtocolVersion = (\d+);", (SOURCE / "common/wire/protocol.h").read_text())[1]
        version = re.search(r"^project\(\w+\s+VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(),
                            re.MULTILINE)[1]
        found = [(str(page.relative_to(SOURCE)), *match) for page in PAGES
                 for match in PROTOCOL.findall(page.read_text())]
        self.assertTrue(found)
        self.assertEqual([each for each in found if each[1:] != (number, version)], [])
        # The row of the changelog's table for those who upgrade to this version.
        table = re.search(r"^\| protocol number \|[^|]*\| (\d+)\.", (SOURCE / "CHANGELOG.md").read_text(),
                          re.MULTILINE)
        self.assertEqual(table[1], number)

    def test_options_that_are_named_exist(self):
        known = set(OPTION.findall(helps())).union(*OTHERS.values())
        wrong = sorted({f"{page.relative_to(SOURCE)}: --{name}" for page in PAGES
                        if page.name != "extending.md"
                        for name in OPTION.findall(page.read_text()) if name not in known})
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
