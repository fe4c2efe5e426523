"""The models of gradwire-worker, in PyTorch."""
from torch import nn

VGG11 = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")


def vgg11():
    layers, channels = [], 3
    for width in VGG11:
        if width == "pool":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(True)]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 128), nn.ReLU(True),
                         nn.Linear(128, 10))


def resnet18():
    import torchvision  # takes seconds, and not every machine has it
    return torchvision.models.resnet18(num_classes=10)


MODELS = {"vgg11": vgg11, "mlp": mlp, "resnet18": resnet18}
