"""The engine: networks in plain NumPy, of which every intermediate value can be read."""

from stethoscope.engine.layers.activation import Activation
from stethoscope.engine.layers.conv import Conv1D, Conv2D
from stethoscope.engine.layers.dense import Dense
from stethoscope.engine.layers.global_pooling import (
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
)
from stethoscope.engine.layers.merge import Add
from stethoscope.engine.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    MaxPooling1D,
    MaxPooling2D,
)
from stethoscope.engine.layers.reshape import Flatten, Permute, Reshape
from stethoscope.engine.layers.resize import (
    UpSampling1D,
    UpSampling2D,
    ZeroPadding1D,
    ZeroPadding2D,
)
from stethoscope.engine.model import Model, Sequential
from stethoscope.engine.network import Input, Network
from stethoscope.engine.training import History, Step
from stethoscope.engine.watch import install, watch

__all__ = [
    "Activation",
    "Add",
    "AveragePooling1D",
    "AveragePooling2D",
    "Conv1D",
    "Conv2D",
    "Dense",
    "Flatten",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "History",
    "Input",
    "MaxPooling1D",
    "MaxPooling2D",
    "Model",
    "Network",
    "Permute",
    "Reshape",
    "Sequential",
    "Step",
    "UpSampling1D",
    "UpSampling2D",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "install",
    "watch",
]
