"""The command blocks of README.md and docs/.

A block is fenced, or indented by four spaces after an empty line; an empty line ends an indented
one. It holds commands if it is fenced as sh, bash or console, or if it is fenced without a language
or indented and a line of it begins with one of

  - a path below build/bin/, bench/, deploy/ or tests/,
  - a program of ours, a word of SHELL, or a program of command_table.PROGRAMS,
  - "…" before an option or a program: a part of a command.

If its first line starts with "$ ", so do all commands, and other lines are output. Lines of a diagram
are no commands, nor are messages of "gradwire launch: …". All other blocks are output, configuration,
source text or diagrams. A block whose first word is a program of this machine that is in no list is an
error, so that nothing is passed over by mistake.
"""
import dataclasses
import pathlib
import re
import shlex
import shutil

from command_table import PLACEHOLDERS, PROGRAMS

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").rglob("*.md"))]
OURS = {"gradwire", "gradwire-coordinator", "gradwire-worker", "gradwire-trainer"}
COMMANDS = {"bench", "checkpoint", "doctor", "env", "experiment", "launch", "ledger", "models", "plan",
            "report", "status", "trace"}
SHELL = {"cat", "cp", "echo", "export", "for", "grep", "kill", "mkdir", "openssl",
         "python3", "test", "umask", "wait", "while"}
SCRIPT = re.compile(r"(?:bench|build/\w+|build|deploy|tests)/[\w./-]+")
NO_COMMAND = re.compile(r"[\u2500-\u25ff]|gradwire \w+:|gradwire \w+ \(")
COMMENT = re.compile(r"(?:^|\s+)#(?:\s.*)?$")
FENCES = {"sh", "bash", "console"}


@dataclasses.dataclass
class Block:
    page: str
    line: int
    lines: list  # commands, each on one line: continued lines, loops and here-documents are joined

    @property
    def where(self):
        return f"{self.page}:{self.line}"


def raw_blocks(text):
    """Yields (line number, language or None if indented, text) of all blocks."""
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        first = i
        if lines[i].startswith("```"):
            i = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            yield first + 2, lines[first][3:].strip(), "\n".join(lines[first + 1:i])
        elif lines[i].startswith("    ") and not lines[i - 1].strip():
            while i < len(lines) and lines[i].startswith("    "):
                i += 1
            yield first + 1, None, "\n".join(line[4:] for line in lines[first:i])
        i += 1


def commands_of(text):
    """One string for each command, without comments."""
    text = text.replace("\\\n", "")
    if text.startswith("$ "):
        text = "\n".join(re.findall(r"^\$ (.*)", text, re.MULTILINE))
    lines = iter(text.split("\n"))
    found = []
    for line in lines:
        if here := re.search(r"<<(\w+)", line):
            while not line.endswith(f"\n{here[1]}"):
                line += "\n" + next(lines)
            found.append(line)
            continue
        line = COMMENT.sub("", line).strip()
        if re.match(r"for\b", line) and not line.endswith("done"):
            for part in lines:
                line += "\n" + COMMENT.sub("", part)
                if part.strip() == "done":
                    break
        if line:
            found.append(line)
    return found


def first_words(command):
    """The program of each part of a command: of a pipe, a list, a loop."""
    plain = re.sub(r"\$\(\([^)]*\)\)", "0", command.split("<<")[0])
    plain = re.sub(r"'[^']*'", "''", plain)
    parts = re.split(r"[;|&()\n]+|\bdo\b", plain)
    stripped = (re.sub(r"^\s*(?:\w+=\S*(?:\s+|$))*", "", part) for part in parts)
    return [words[0] for part in stripped if (words := part.split())]


def program(word):
    """A script by its path in the checkout, all others by their name."""
    word = word.strip('"').replace("$PWD/", "")
    path = SCRIPT.fullmatch(word)
    return word if path and not word.startswith("build/bin/") else word.rsplit("/", 1)[-1]


def is_command(command):
    words = first_words(command)
    if not words:
        return bool(re.fullmatch(r"\w+=\S*", command))
    name = program(words[0])
    return bool(name in OURS | SHELL or name in PROGRAMS or SCRIPT.fullmatch(words[0])
                or re.match(r"… [-\w]", command))


def command_blocks():
    """All blocks of commands, and what could not be told, as text."""
    found, unknown = [], []
    for page in PAGES:
        name = str(page.relative_to(SOURCE))
        for line, language, text in raw_blocks(page.read_text()):
            if language not in FENCES | {None, ""} or not (commands := commands_of(text)):
                continue
            if language not in FENCES and NO_COMMAND.search(text.split("\n")[0]):
                continue
            if language in FENCES or any(map(is_command, commands)):
                found.append(Block(name, line, commands))
            elif (words := first_words(commands[0])) and shutil.which(words[0]):
                unknown.append(f"{name}:{line}: {words[0]} is in no list: {commands[0]}")
    return found, unknown


def invocations(command):
    """Yields (program, arguments) for each program of ours and script of the checkout."""
    text = re.sub(r"\$\(\([^)]*\)\)", "1", command.split("<<")[0])
    for part in re.split(r"\s(?:\||&&|2?>&?1?|done)(?:\s|$)|[;\n]", text):
        try:
            words = shlex.split(part)
        except ValueError:  # a quoted text that was divided
            words = part.replace("'", "").replace('"', "").split()
        words = [word.strip("[]()") for word in words]
        while words and re.match(r"\w+=", words[0]):
            del words[0]
        if words[:1] == ["cmake"]:  # names targets, not programs
            continue
        for i, word in enumerate(words):
            name = program(word)
            if name == "gradwire":  # which is also a folder, a job, an image
                ours = i == 0 or word.endswith("bin/gradwire") or words[i + 1:i + 2] and \
                    words[i + 1] in COMMANDS
            else:
                ours = name in OURS or SCRIPT.fullmatch(name) and (SOURCE / name).is_file() and (
                    i == 0 or name.endswith(".sbatch"))
            if ours:
                arguments = [PLACEHOLDERS.get(each, each) for each in words[i + 1:]
                             if each not in ("…", "...", "")]
                yield name, arguments
                break
