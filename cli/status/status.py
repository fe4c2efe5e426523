#!/usr/bin/python3
"""`gradwire status`, once its options are read.

    status.py DATA

DATA: {"coordinator": "HOST:PORT", "watch": whether to ask each second until the run ends,
       "json": whether to print the answer itself, "token_file": the run's, or "",
       "tls": {"cert", "key", "ca"}, files for a coordinator with HTTPS; or null}
"""
import json
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from cli.launch.run_token import read_token
from cli.runs.failure import EXIT_USAGE, Failure, failing
from cli.status import http_client, status_text
from cli.terminal.command import EXIT_DONE, EXIT_TRY_AGAIN, run, say

PROGRAM = "gradwire status"
ANSWER_WITHIN = 5  # seconds
EVERY = 1
OUT = 1  # stdout
CLEAR, HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"
CONTROL_IN_JSON = re.compile("[\x7f-\x9f]")  # JSON itself escapes the others


class Unreachable(Failure):
    """No program listens there."""


def ask(coordinator, token="", context=None):
    """Returns the text of /status.json and its content. Unreachable or another Failure without
    it."""
    unreachable = f"cannot reach a coordinator's --metrics at {coordinator}: "
    try:
        body = http_client.get(coordinator, "/status.json", ANSWER_WITHIN, token, context)
        return body.decode(errors="replace"), status_text.parse(body)
    except http_client.Unreachable as why:
        raise Unreachable(f"{unreachable}{why}", EXIT_TRY_AGAIN) from None
    except http_client.TooSlow as why:
        raise Failure(f"{unreachable}{why}", EXIT_TRY_AGAIN) from None
    except http_client.Refused as why:
        raise Failure(f"the coordinator at {coordinator} does not answer: {why} (--token-file)",
                      EXIT_USAGE) from None
    except http_client.NoTls as why:
        raise Failure(f"the coordinator at {coordinator} does not answer: {why} "
                      "(--tls-cert, --tls-key, --tls-ca; --plain-http)", EXIT_USAGE) from None
    except (http_client.BadAnswer, status_text.NotACoordinator) as why:
        raise Failure(f"{coordinator} is no coordinator's --metrics address: {why}") from None


def context_of(files):
    """Returns the context for HTTPS; None without files. Failure if they are of no use."""
    if not files:
        return None
    try:
        return http_client.tls_context(**files)
    except OSError as error:
        raise Failure(f"--tls-cert, --tls-key, --tls-ca: cannot use {', '.join(files.values())}: "
                      f"{error.strerror or error}", EXIT_USAGE) from None


def redrawn(lines, is_first):
    """Draws from the upper left corner; each line clears the rest of the old one."""
    size = os.get_terminal_size(OUT)
    columns, rows = (size.columns, size.lines - 1) if size.lines > 1 else (80, 24)
    lines = status_text.fitted(lines, columns, rows)
    return ((CLEAR if is_first else "") + HOME +
            "".join(f"{line}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW)


def block(data, text, status, is_first):
    """Returns the text that shows an answer."""
    if data["json"] and data["watch"]:  # in one line
        text = json.dumps(status, separators=(",", ":"), ensure_ascii=False) + "\n"
    if data["json"]:  # without characters that control a terminal
        return CONTROL_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    lines = status_text.lines_of(status)
    if data["watch"] and os.isatty(OUT):
        return redrawn(lines, is_first)
    return ("" if is_first else "\n") + "".join(f"{line}\n" for line in lines)


def show(text):
    """Writes to stdout. SIGPIPE ends the program if no process reads it any more."""
    content = text.encode(errors="replace")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with failing("cannot write to stdout"):
        while content:
            content = content[os.write(OUT, content):]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # for the next answer's connection


def follow(data, _):
    """Shows one answer after the other until the run ends. Returns the exit code."""
    coordinator = data["coordinator"]
    token = read_token(data["token_file"]) if data["token_file"] else ""
    context = context_of(data["tls"])
    text, status = ask(coordinator, token, context)
    show(block(data, text, status, is_first=True))
    while data["watch"] and not status_text.has_ended(status):
        time.sleep(EVERY)
        try:
            text, status = ask(coordinator, token, context)
        except Unreachable:  # a coordinator ends soon after its run
            say(PROGRAM, f"{coordinator} does not answer any more: its run is over (last seen: "
                f"{status_text.progress_text(status)}); the coordinator's log says how it ended")
            break
        show(block(data, text, status, is_first=False))
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(run(PROGRAM, follow))
