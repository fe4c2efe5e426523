"""Files that are written as a whole."""
import errno
import os
import stat

from cli.runs.failure import Failure


def write_in_place(path, content):
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)
    with open(fd, "wb") as file:
        file.write(content)


def replace(path, content):
    part = f"{path}.{os.getpid()}.tmp"
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


def is_replaced(path):
    return not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode)


def replace_file(path, content):
    """In one move: a reader sees the old file or the new one, never a part. Links are followed;
    what is no regular file (a terminal, a pipe, /dev/null) is written to in place. Failure
    "cannot write ..." leaves the old file as it was."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    try:
        if is_replaced(path):
            replace(os.path.realpath(path), content)
        else:
            write_in_place(path, content)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror.lower()}") from None


def probe(path):
    """OSError if replace_file could not write there now; changes nothing."""
    if is_replaced(path):
        part = f"{os.path.realpath(path)}.{os.getpid()}.tmp"
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        os.unlink(part)
    elif os.path.isdir(path):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    elif not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def check_writable(path):
    """Failure "cannot write ..." if replace_file could not write there now."""
    try:
        probe(path)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror.lower()}") from None
