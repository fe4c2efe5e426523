"""CIFAR-10's binary files, made up: for runs whose epochs and evaluations are as long as a test wants."""


def records(count):
    """A label and 3,072 pixels each."""
    return b"".join(bytes([number % 10]) + bytes((25 * number + pixel) % 256 for pixel in range(3072))
                    for number in range(count))


def write_cifar10(folder, trained, tested):
    """`trained` records to train on, divided by five files, and `tested` to evaluate on."""
    folder.mkdir()
    for batch in range(1, 6):
        (folder / f"data_batch_{batch}.bin").write_bytes(records(trained // 5))
    (folder / "test_batch.bin").write_bytes(records(tested))
    (folder / "batches.meta.txt").write_text("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\n"
                                             "horse\nship\ntruck\n")
