"""Downloads of deploy/fetch-mnist and deploy/fetch-weights, which resume where they broke off."""
import http.client
import os
import sys
import urllib.error
import urllib.request

EXIT_FAILED, EXIT_USAGE, EXIT_TRY_AGAIN = 1, 2, 75
SECONDS_OF_SILENCE = 30
PIECE = 1 << 16  # bytes


def fail(message, exit_code=EXIT_FAILED):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)
    sys.exit(exit_code)


def make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"cannot make {folder}: {error.strerror.lower()}", EXIT_USAGE)


def open_from(url, begin):
    """Returns the answer, and whether it starts at byte `begin`."""
    headers = {"Range": f"bytes={begin}-"} if begin else {}
    answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers),
                                    timeout=SECONDS_OF_SILENCE)
    return answer, answer.status == 206


def download(url, part):
    """Completes the file `part`, or ends the program if it cannot be written. OSError (as urllib's
    errors are) or HTTPException if the server does not give it."""
    begin = part.stat().st_size if part.exists() else 0
    answer, goes_on = open_from(url, begin)
    with answer, open_part(part, "ab" if goes_on else "wb") as file:
        while piece := answer.read(PIECE):
            write(file, piece)
        if getattr(answer, "length", 0):  # number of missing bytes
            raise OSError("the download broke off")


def open_part(part, mode):
    try:
        return open(part, mode, buffering=0)
    except OSError as error:
        fail(f"cannot write {part}: {error.strerror.lower()}")


def write(file, piece):
    try:
        while piece:
            piece = piece[file.write(piece):]
    except OSError as error:
        fail(f"cannot write {file.name}: {error.strerror.lower()}")


def fetch_from(url, part, is_right, expected):
    """Downloads `part`. Returns None if it is right, else the error of this mirror."""
    print(f"Fetching {url}", file=sys.stderr)
    try:
        download(url, part)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the file has no more bytes than `part`
            part.unlink()
        return f"{url}: the server answered {error.code}"
    if is_right(part):
        return None
    part.unlink()
    return f"{url}: got a file with another {expected}; it was removed"


def fetch(path, mirrors, is_right, expected):
    """Downloads the file `path` from the first mirror that has it, unless its beginning, PATH.part,
    is_right() already. `expected`: "MD5, expected 1a2b", for messages. Ends the program if no
    mirror has it."""
    for mirror in mirrors:
        if not mirror.startswith(("http://", "https://")):
            fail(f"--mirror: expected an address that begins with http:// or https://, got {mirror}",
                 EXIT_USAGE)
    part, wrong, unreachable = path.with_name(f"{path.name}.part"), [], []
    if part.exists() and is_right(part):
        mirrors = []
    for mirror in mirrors:
        url = f"{mirror.rstrip('/')}/{path.name}"
        try:
            why = fetch_from(url, part, is_right, expected)
        except (OSError, http.client.HTTPException) as error:
            unreachable.append(f"cannot reach {url} ({error}); run this again to resume")
            continue
        if why is None:
            break
        wrong.append(why)
    else:
        if mirrors:
            fail("\n  ".join(wrong + unreachable), EXIT_FAILED if wrong else EXIT_TRY_AGAIN)
    os.replace(part, path)
