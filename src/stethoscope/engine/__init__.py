"""The engine: networks in plain NumPy, of which every intermediate value can be read.

A program in the style of DeepLocalize's library (Wardat et al., ICSE'21): each layer and each
activation is a step of its own, put into the model one after the other, then trained.

>>> import numpy as np
>>> from stethoscope.engine import Activation, Dense, Flatten, Sequential
>>> from stethoscope.engine.optimizers import Adam
>>> rng = np.random.default_rng(0)
>>> labels = np.arange(300) % 3
>>> images = rng.random((300, 4, 4, 1)) + labels[:, None, None, None]
>>> model = Sequential(input_shape=(4, 4, 1), seed=0)
>>> model.insert(0, Flatten(name="flatten"))
>>> model.insert(1, Dense(8, name="fc1"))
>>> model.insert(2, Activation("relu", name="relu1"))
>>> model.insert(3, Dense(3, name="fc2"))
>>> model.insert(4, Activation("softmax", name="softmax"))
>>> model.compile(Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
>>> history = model.fit(images, labels, batch_size=10, epochs=15).history
>>> model.evaluate(images, labels)["accuracy"] > 0.95
True
"""

from stethoscope.engine.layers.activation import Activation
from stethoscope.engine.layers.advanced_activation import ELU, LeakyReLU, PReLU, ReLU, Softmax
from stethoscope.engine.layers.bidirectional import Bidirectional
from stethoscope.engine.layers.conv import Conv1D, Conv2D
from stethoscope.engine.layers.conv_transpose import Conv1DTranspose, Conv2DTranspose
from stethoscope.engine.layers.dense import Dense
from stethoscope.engine.layers.depthwise import DepthwiseConv1D, DepthwiseConv2D
from stethoscope.engine.layers.dropout import (
    AlphaDropout,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
)
from stethoscope.engine.layers.embedding import Embedding
from stethoscope.engine.layers.global_pooling import (
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
)
from stethoscope.engine.layers.gru import GRU
from stethoscope.engine.layers.merge import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
)
from stethoscope.engine.layers.normalization import (
    BatchNormalization,
    GroupNormalization,
    LayerNormalization,
)
from stethoscope.engine.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    MaxPooling1D,
    MaxPooling2D,
)
from stethoscope.engine.layers.recurrent import LSTM, SimpleRNN
from stethoscope.engine.layers.reshape import Flatten, Permute, Reshape
from stethoscope.engine.layers.resize import (
    UpSampling1D,
    UpSampling2D,
    ZeroPadding1D,
    ZeroPadding2D,
)
from stethoscope.engine.model import Model, Sequential
from stethoscope.engine.network import Input, Network
from stethoscope.engine.step import Listener, OnStep, Step
from stethoscope.engine.training import History
from stethoscope.engine.watch import install, watch

__all__ = [
    "ELU",
    "GRU",
    "LSTM",
    "Activation",
    "Add",
    "AlphaDropout",
    "Average",
    "AveragePooling1D",
    "AveragePooling2D",
    "BatchNormalization",
    "Bidirectional",
    "Concatenate",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Dense",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "Dot",
    "Dropout",
    "Embedding",
    "Flatten",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GroupNormalization",
    "History",
    "Input",
    "LayerNormalization",
    "LeakyReLU",
    "Listener",
    "MaxPooling1D",
    "MaxPooling2D",
    "Maximum",
    "Minimum",
    "Model",
    "Multiply",
    "Network",
    "OnStep",
    "PReLU",
    "Permute",
    "ReLU",
    "Reshape",
    "Sequential",
    "SimpleRNN",
    "Softmax",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "Step",
    "Subtract",
    "UpSampling1D",
    "UpSampling2D",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "install",
    "watch",
]
