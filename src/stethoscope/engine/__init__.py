"""The engine: networks in plain NumPy, of which every intermediate value can be read."""

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
from stethoscope.engine.step import Step
from stethoscope.engine.training import History
from stethoscope.engine.watch import OnStep, install, watch

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
