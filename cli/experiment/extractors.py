"""The weights of frozen extractors: files of --weights, or trained first (--pretrain).

A file is named as torchvision names it (vgg16-397923af.pth, whose SHA-256 begins with 397923af), or
MODEL.safetensors, MODEL.pth or MODEL.pt.
"""
import dataclasses
import functools
import hashlib
import os
import pathlib
import re

from cli.experiment.devices import FULL_SIZE, WORK, WORK_PER_SECOND, OnDevices
from cli.experiment.study import report_part, tabulate
from cli.experiment.work import SECONDS_TO_START, options_text
from cli.runs.failure import EXIT_USAGE, Failure, failing

ENDINGS = (".safetensors", ".pth", ".pt")
DIGEST = re.compile(r"-([0-9a-f]{8})\.pth$")
WITH_HOSTS = "the weights are files of this machine"
# Adam, because a plain network of many layers learns little in so few iterations with SGD. The
# classifier has another width than those of the runs, so that none of them begins with it.
OPTIONS = ("--optimizer", "adam", "--lr", 0.0001, "--weight-decay", 0, "--augment", "false",
           "--hidden", 512)
BATCH = 16


@functools.lru_cache(maxsize=None)
def sha256_of(path):
    """Returns the digest of a file; "" if there is none."""
    digest = hashlib.sha256()
    if not os.path.exists(path):
        return ""
    with failing(f"--weights: cannot read '{path}'", EXIT_USAGE), open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def file_of(folder, model):
    """Returns the path of a model's weights in the folder of --weights. Failure if there is none, if
    there are several, or if its name has another digest."""
    names = [path.name for path in sorted(pathlib.Path(folder).glob(f"{model}*"))
             if path.name in [model + ending for ending in ENDINGS]
             or re.fullmatch(rf"{model}(-owt)?-[0-9a-f]{{8}}\.pth", path.name)]
    if len(names) != 1:
        got = f"which has {' and '.join(names)}" if names else f"which has no weights of {model}"
        raise Failure(f"--weights: got '{folder}', {got}, expected one of {model}.safetensors, "
                      f"{model}.pth and torchvision's {model}-DIGEST.pth; fetch them with "
                      "deploy/fetch-weights DIR", EXIT_USAGE)
    path = os.path.abspath(os.path.join(folder, names[0]))
    expected = DIGEST.search(path)
    if expected and not sha256_of(path).startswith(expected[1]):
        raise Failure(f"--weights: '{path}' has SHA-256 {sha256_of(path)}, expected one that begins "
                      f"with {expected[1]}; fetch it again", EXIT_USAGE)
    return path


def pretraining_iterations(setting):
    """Returns how long extractors are trained first; 0 if they are not."""
    request = setting.request
    return 0 if request["weights"] else request["pretrain"] or setting.scale.get("pretrain", 0)


def weights_of(setting, model):
    """Returns the path of a model's weights; "" if they are random. Failure as of file_of, or if the
    runs are on other hosts."""
    request, iterations = setting.request, pretraining_iterations(setting)
    if setting.hosts_are_elsewhere and (request["weights"] or request["pretrain"]):
        name = "weights" if request["weights"] else "pretrain"
        raise Failure(f"--{name}: got it with ranks on other hosts, expected them here, because "
                      f"{WITH_HOSTS}", EXIT_USAGE)
    if request["weights"]:
        return file_of(request["weights"], model)
    if not iterations or setting.hosts_are_elsewhere:
        return ""
    return os.path.abspath(os.path.join(request["out"], f"{model}-{iterations}.safetensors"))


@dataclasses.dataclass(frozen=True)
class Pretraining(OnDevices):
    """Trains a whole model on all cores, and keeps its weights in `leaves`."""

    def _common(self, setting):
        return options_text([
            "--sync", "none", "--threads", setting.threads(1), *self._model_and_data(setting),
            "--batch-size", self.batch_size, "--iterations", self.iterations])

    def seconds(self, setting):
        part = (setting.scale["image"] / FULL_SIZE) ** 2
        forward = self.batch_size * WORK[self.model] * part / WORK_PER_SECOND / setting.threads(1)
        return SECONDS_TO_START + 3 * self.iterations * forward


def pretraining(setting, model):
    path = weights_of(setting, model)
    return Pretraining(f"pretrain-{model}", f"{model}, trained first", 1, BATCH,
                       pretraining_iterations(setting), (*OPTIONS, "--save-weights", path),
                       model=model, leaves=path)


def pretrainings(setting, models):
    if not pretraining_iterations(setting) or setting.hosts_are_elsewhere:
        return []
    return [pretraining(setting, model) for model in models]


@report_part
def weights_table(setting, results, models):
    """Returns a list of a table, which is empty if weights are random."""
    files = {model: weights_of(setting, model) for model in models}
    if not any(files.values()):
        return []

    def loss(model):
        run = results.get(f"pretrain-{model}")
        return run and run.losses()[-1]

    return [tabulate("weights", "Weights of the extractors", "pretrained models", models, [
        ("model", "model", lambda model: model),
        ("file", "file", lambda model: os.path.basename(files[model])),
        ("sha256", "SHA-256", lambda model: sha256_of(files[model])),
        ("loss", "last loss of its training here", loss, 4)])]


def weights_note(setting):
    iterations = pretraining_iterations(setting)
    if setting.request["weights"]:
        return "Extractors have the weights of --weights; a table has their digests."
    if iterations and not setting.hosts_are_elsewhere:
        return (f"Each extractor was trained first, as a part of its whole model, for {iterations} "
                f"iterations of {BATCH} images of the same data by Adam; the report's were trained "
                "on ImageNet (--weights).")
    return ("Extractors have random weights (--seed); the report's were trained on ImageNet "
            "(--weights).")
