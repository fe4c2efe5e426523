"""Runs and images that the experiments on the devices of one process share."""
import dataclasses
import os

from cli.experiment.work import SECONDS_TO_START, Training, options_text

DEBIANS_IMAGES = "/usr/share/datasets/fashion-mnist"
CLASSES = 10
CHANNELS = 3  # grey images are repeated
FULL_SIZE = 224  # pixels a side
# A choice: the models of the benchmark report. Features that the classifier gets:
FEATURES = {"squeezenet1_0": 512, "alexnet": 9216, "resnet18": 512, "densenet121": 1024,
            "vgg16": 25088}
# Forward, billions of multiplications for an image of the full size.
WORK = {"squeezenet1_0": 0.82, "alexnet": 0.71, "resnet18": 1.8, "densenet121": 2.9, "vgg16": 15.5}
WORK_PER_SECOND = 20.0  # of a core of 2020, likewise
SECONDS_PER_PARAMETER = 3e-9  # to initialize, copy or train it once
BYTES_PER_IMAGE = 30 << 20  # of memory, about, of the full size
CORES = "a core for each device"  # for `needs` of a Statement
NEEDS_CORES = f"needs {CORES}"


def images(setting):
    """Returns options of the worker."""
    if setting.request["data_dir"]:
        return ["--dataset", "mnist", "--data-dir", os.path.abspath(setting.request["data_dir"])]
    return ["--dataset", "fashion-mnist" if os.path.isdir(DEBIANS_IMAGES) else "synthetic"]


def images_note(setting):
    name = images(setting)[1]
    if name == "mnist":
        return "The images are MNIST's."
    return f"The images are {name}'s, because MNIST is missing (--data-dir)."


def threads(setting):
    """Returns the threads of a device, which do not depend on how many devices a run has: more
    devices have more threads in all, as they would on separate machines."""
    return setting.request["threads"] or max(1, setting.cores // setting.scale["most_devices"])


def lacks_cores(setting, devices):
    """Returns why times of `devices` devices cannot be judged; "" if they can."""
    enough = setting.hosts_are_elsewhere or setting.cores >= devices * threads(setting)
    return "" if enough else NEEDS_CORES


def classifier_size(model, width):
    """Returns the parameters of layers features, width, width, classes; of one if width is 0."""
    sizes = (FEATURES[model], width, width, CLASSES) if width else (FEATURES[model], CLASSES)
    return sum(inputs * outputs + outputs for inputs, outputs in zip(sizes, sizes[1:]))


def bytes_of_parameters(devices, trained):
    """Returns what gradients, momentum and copies of the trained parameters take."""
    return 4 * trained * (5 + devices)


def bytes_of_image(setting):
    """Returns what the activations of an image take."""
    return BYTES_PER_IMAGE * (setting.scale["image"] / FULL_SIZE) ** 2


def largest_batch(setting, devices, trained):
    """Returns the largest batch whose gradients, momentum and activations fit in the free memory."""
    free = setting.memory - bytes_of_parameters(devices, trained)
    return int(free // bytes_of_image(setting))


@dataclasses.dataclass(frozen=True)
class OnDevices(Training):
    """One process whose devices divide each batch, of `batch_size` in all."""
    model: str = "vgg16"
    devices: int = 1
    parameters: int = 0  # trained, or copied to each device
    weights: str = ""  # file of the extractor's; "": random
    digest: str = ""  # of that file, if it is not the experiment's own

    def seconds(self, setting):
        cores = min(setting.cores, self.devices * threads(setting))
        part = (setting.scale["image"] / FULL_SIZE) ** 2
        forward = self.batch_size * WORK[self.model] * part / WORK_PER_SECOND / cores
        moved = self.parameters * self.devices * SECONDS_PER_PARAMETER
        return SECONDS_TO_START + 2 * moved + self.iterations * (forward + moved)

    def run(self, setting):
        run = super().run(setting)
        return dataclasses.replace(run, inputs=(self.digest,)) if self.digest else run

    def layout(self, setting):
        return super().layout(setting) + (["--evaluate"] if "--inference" in self.options else [])

    def _model_and_data(self, setting):
        return ["--model", self.model, *images(setting), "--image-size", setting.scale["image"]]

    def _common(self, setting):
        count = ["--epochs", self.epochs] if self.epochs else ["--iterations", self.iterations]
        return options_text([
            "--sync", "data-parallel", "--devices", self.devices, "--threads", threads(setting),
            *self._model_and_data(setting), "--batch-size", self.batch_size, *count,
            *(["--weights", self.weights] if self.weights else [])])


def computation(result):
    """Returns mean seconds of an iteration, without the first one."""
    return sum(result.phase(name) or 0 for name in ("forward", "backward", "optimizer"))


def communication(result):
    return result.phase("communication") or 0


def barrier(result):
    """Returns how long a device would wait at a barrier after an iteration, on average."""
    return result.summary.get("barrier_seconds", 0)


def times_series(results):
    """Returns a figure's series: a bar for each of `results`, in two parts."""
    return [{"name": "computation", "colour": "#0072b2",
             "values": [computation(result) for result in results]},
            {"name": "communication", "colour": "#d55e00", "hatch": "////",
             "values": [communication(result) for result in results]}]
