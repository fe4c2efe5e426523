"""Files that are replaced as a whole, and a folder for temporary ones."""
import errno
import fcntl
import os
import re
import stat
import sys
import tempfile

from cli.runs.failure import failing


def scratch_folder():
    """Returns a folder that `with` removes at its end. Failure if it cannot be made."""
    with failing("cannot make a folder for temporary files (TMPDIR)"):
        return tempfile.TemporaryDirectory(prefix="gradwire-")


def sync_folder_of(path):
    """Makes the new name of a file durable, if the folder is readable and can be synced."""
    try:
        fd = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(fd)


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
    sync_folder_of(path)


def own_descriptor(path):
    """Returns N for a path that names this process's open descriptor N; None for other paths. Output
    goes on there, even if it is a regular file. As in common/base/output_file.h."""
    own = {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path))
    match = re.fullmatch(r"(?:/dev/fd|/proc/self/fd)/(\d{1,9})", str(path))
    return int(match[1]) if match else own


def is_replaced(path):
    return own_descriptor(path) is None and (
        not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode))


def open_in_place(path):
    own = own_descriptor(path)
    if own is not None:
        sys.stdout.flush()  # what was printed before comes before
        return os.dup(own)
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY)


def replace_file(path, content):
    """Replaces the file in one move, so a reader sees the old file or the new one, never a part. On
    return the file and its name are on the disk. Follows links. Writes in place to anything that is
    no regular file (a terminal, a pipe, /dev/null) or is an own descriptor. Raises Failure "cannot
    write ..."; the old file is then unchanged, unless the disk failed after the move."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    with failing(f"cannot write {path}"):
        if is_replaced(path):
            replace(os.path.realpath(path), content)
        else:
            with open(open_in_place(path), "wb") as file:
                file.write(content)


def probe(path):
    """Raises OSError if replace_file could not write there now. Changes nothing."""
    if is_replaced(path):
        part = f"{os.path.realpath(path)}.{os.getpid()}.tmp"
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        os.unlink(part)
    elif own_descriptor(path) is not None:
        if fcntl.fcntl(own_descriptor(path), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    elif os.path.isdir(path):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    elif not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def check_writable(path):
    """Raises Failure "cannot write ..." if replace_file could not write there now."""
    with failing(f"cannot write {path}"):
        probe(path)
