"""From Keras classes and functions to the words of `stethoscope.vocabulary`.

Classes are looked up by name along the method resolution order, among classes that Keras itself
defines: a user's subclass of `Dense` is a dense layer, a user's own class named `Dense` is not.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from stethoscope.vocabulary import ACTIVATIONS, LayerKind

LIBRARIES = ("keras", "tf_keras", "tensorflow", "torch", "jax")

_KIND_NAMES: dict[LayerKind, str] = {
    LayerKind.DENSE: "Dense EinsumDense",
    LayerKind.CONV: """Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose
        DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D""",
    LayerKind.RECURRENT: """RNN SimpleRNN LSTM GRU SimpleRNNCell LSTMCell GRUCell StackedRNNCells
        ConvLSTM1D ConvLSTM2D ConvLSTM3D ConvLSTM Bidirectional""",
    LayerKind.EMBEDDING: "Embedding ReversibleEmbedding",
    LayerKind.ATTENTION: "MultiHeadAttention GroupedQueryAttention Attention AdditiveAttention",
    LayerKind.NORMALIZATION: """BatchNormalization LayerNormalization GroupNormalization
        RMSNormalization UnitNormalization""",
    LayerKind.DROPOUT: """Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D AlphaDropout
        GaussianDropout GaussianNoise""",
    LayerKind.POOLING: """BasePooling BaseGlobalPooling BaseAdaptivePooling
        AdaptiveAveragePooling1D AdaptiveAveragePooling2D AdaptiveAveragePooling3D
        AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D
        GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D
        GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D
        AveragePooling1D AveragePooling2D AveragePooling3D
        MaxPooling1D MaxPooling2D MaxPooling3D""",
    # Whatever moves, repeats or selects values without computing new ones, and the identities.
    LayerKind.RESHAPE: """Reshape Flatten Permute RepeatVector Cropping1D Cropping2D Cropping3D
        ZeroPadding1D ZeroPadding2D ZeroPadding3D UpSampling1D UpSampling2D UpSampling3D
        Identity ActivityRegularization Masking CenterCrop Resizing RandomCrop RandomFlip
        RandomRotation RandomTranslation RandomZoom RandomShear RandomPerspective
        RandomElasticTransform RandomErasing""",
    LayerKind.RESCALE: "Rescaling Normalization",
    LayerKind.ACTIVATION: "Activation ReLU LeakyReLU PReLU ELU Softmax",
    LayerKind.MERGE: "Add Subtract Multiply Average Maximum Minimum Concatenate Dot",
    LayerKind.CONTAINER: "Model Functional Sequential Pipeline",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KINDS = {name: kind for kind, names in _KIND_NAMES.items() for name in _words(names)}

# Operations (`keras.ops`, operators on symbolic tensors) that are no layer.
_MERGING_OPS = _words(
    """Add Subtract Multiply Divide TrueDivide Maximum Minimum Average Concatenate Stack Hstack
    Vstack Matmul Dot Einsum Tensordot"""
)
_SCALING_OPS = _words("Add Subtract Multiply Divide TrueDivide Negative")
_MOVING_OPS = _words(
    """Reshape Transpose Squeeze ExpandDims Ravel Flatten GetItem Pad Cast Repeat Tile Swapaxes
    Moveaxis Split Flip Roll Take TakeAlongAxis Slice Copy StopGradient BroadcastTo"""
)
_POOLING_OPS = _words("Mean Max Min MaxPool AveragePool")

_ALIASES = {
    "swish": "silu",
    "hard_swish": "hard_silu",
    "hardswish": "hard_silu",
    "exp": "exponential",
    "softmax_v2": "softmax",
    "log_softmax_v2": "log_softmax",
    "logsigmoid": "log_sigmoid",
    "hardtanh": "hard_tanh",
    "hardsigmoid": "hard_sigmoid",
    "identity": "linear",
}
_ACTIVATION_LAYERS = {
    "LeakyReLU": "leaky_relu",
    "PReLU": "prelu",
    "ELU": "elu",
    "Softmax": "softmax",
}


def snake_case(name: str) -> str:
    """A class name as a function name.

    >>> snake_case("GlorotUniform"), snake_case("L1L2"), snake_case("ReLU")
    ('glorot_uniform', 'l1l2', 're_lu')
    """
    name = re.sub(r"([a-z0-9])([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def from_library(value: Any) -> bool:
    """Whether a class, function or object's class is defined by Keras or a backend of it."""
    module = getattr(value, "__module__", None)
    if not module:
        return type(value).__name__ == "builtin_function_or_method"
    return str(module).split(".", 1)[0] in LIBRARIES


def library_classes(value: Any) -> list[str]:
    """Names of the library classes that `value` is an instance of, most derived first."""
    return [cls.__name__ for cls in type(value).__mro__ if from_library(cls)]


def known_as(value: Any, table: dict[str, Any]) -> Any | None:
    """What `table` says of the most derived library class of `value` that it lists."""
    return next((table[name] for name in library_classes(value) if name in table), None)


def activation_name(value: Any) -> str | None:
    """Canonical name of an activation as a user may give it; None when it is not recognised.

    Args:
        value: None (no activation), a string, a function of Keras or of a backend, a
            `functools.partial` of one, or an activation layer.

    >>> activation_name("swish"), activation_name(None), activation_name(lambda x: x)
    ('silu', 'linear', None)
    """
    if value is None:
        return "linear"
    if isinstance(value, str):
        canonical = _ALIASES.get(value, value)
        return canonical if canonical in ACTIVATIONS else None
    if isinstance(value, functools.partial):
        plain = not (set(value.keywords) - {"axis", "approximate", "alpha"}) and not value.args
        # A slope, a ceiling or a threshold makes another function of a relu.
        base = activation_name(value.func) if plain else None
        return None if base == "relu" and value.keywords else base
    if is_layer(value):
        return layer_activation(value) if layer_kind(value) == LayerKind.ACTIVATION else None
    name = getattr(value, "__name__", None)
    if not isinstance(name, str) or not from_library(value):
        return None
    return activation_name(name)


def is_layer(value: Any) -> bool:
    """Whether `value` is a Keras layer or model."""
    return "Layer" in library_classes(value)


def wrapped(layer: Any) -> Any | None:
    """The layer inside a `TimeDistributed`, `Bidirectional`, `SpectralNormalization`, ..."""
    names = library_classes(layer)
    if "Bidirectional" in names:
        return getattr(layer, "forward_layer", None)
    return getattr(layer, "layer", None) if "Wrapper" in names else None


def layer_kind(layer: Any) -> LayerKind:
    """What a layer (or a symbolic operation) does; OTHER when it is not recognised. Never raises.

    A layer of the user's own that holds other layers is a CONTAINER.
    """
    kind = known_as(layer, _KINDS)
    if not is_layer(layer):
        return LayerKind.OTHER
    inner = wrapped(layer)
    if inner is not None and kind is None:
        return layer_kind(inner)
    if kind is not None:
        return LayerKind(kind)
    if "Lambda" in library_classes(layer):
        known = activation_name(getattr(layer, "function", None) or _unknown)
        return LayerKind.ACTIVATION if known else LayerKind.OTHER
    own = not from_library(type(layer))
    return LayerKind.CONTAINER if own and getattr(layer, "_layers", None) else LayerKind.OTHER


def operation_kind(operation: Any, tensors: int) -> LayerKind:
    """What a symbolic operation with `tensors` tensor arguments does."""
    name = type(operation).__name__
    if name in _MERGING_OPS and tensors > 1:
        return LayerKind.MERGE
    if name in _SCALING_OPS:
        return LayerKind.RESCALE
    if name in _MOVING_OPS:
        return LayerKind.RESHAPE
    if name in _POOLING_OPS:
        return LayerKind.POOLING
    return LayerKind.ACTIVATION if _operation_activation(operation) else LayerKind.OTHER


def _operation_activation(operation: Any) -> str | None:
    if not from_library(type(operation)):
        return None
    name = type(operation).__name__
    if name == "ReLU":  # `keras.activations.relu` on a symbolic tensor
        return _relu(operation)
    return activation_name(_OPERATION_NAMES.get(name, snake_case(name)))


_OPERATION_NAMES = {"Relu6": "relu6"}


def operation_activation(operation: Any, kind: LayerKind) -> str | None:
    """Canonical activation of a symbolic operation of that kind."""
    if kind == LayerKind.ACTIVATION:
        return _operation_activation(operation)
    return None if kind == LayerKind.OTHER else "linear"


def layer_activation(layer: Any) -> str | None:
    """Canonical name of the activation that a layer applies last; None when unknown."""
    kind = layer_kind(layer)
    inner = wrapped(layer)
    if inner is not None:
        joined = getattr(layer, "merge_mode", "concat") in ("concat", None)
        return layer_activation(inner) if joined else None
    if kind == LayerKind.ACTIVATION:
        return _activation_layer(layer)
    if kind in (LayerKind.OTHER, LayerKind.CONTAINER):
        return None
    cell = getattr(layer, "cell", None)
    if cell is not None:
        return layer_activation(cell)
    cells = getattr(layer, "cells", None)
    if cells:
        return layer_activation(cells[-1])
    return activation_name(getattr(layer, "activation", None))


def _activation_layer(layer: Any) -> str | None:
    names = library_classes(layer)
    if "ReLU" in names:
        return _relu(layer)
    if "Lambda" in names:
        return activation_name(getattr(layer, "function", None) or _unknown)
    named = known_as(layer, _ACTIVATION_LAYERS)
    return named if named else activation_name(getattr(layer, "activation", _unknown))


def _relu(layer: Any) -> str | None:
    ceiling = getattr(layer, "max_value", None)
    slope = getattr(layer, "negative_slope", 0.0)
    if getattr(layer, "threshold", 0.0):
        return None
    if slope:
        return "leaky_relu" if ceiling is None else None
    return {None: "relu", 6.0: "relu6"}.get(ceiling)


def _unknown() -> None:
    """Stands for an activation that is not known."""


def unit_axis(layer: Any) -> int:
    """Axis of a layer's output that holds its units (channels); -1 unless channels come first."""
    inner = wrapped(layer)
    if inner is not None and layer_kind(layer) != LayerKind.RECURRENT:
        axis = unit_axis(inner)
        # TimeDistributed puts the time axis before the channels.
        return axis + 1 if axis > 0 and "TimeDistributed" in library_classes(layer) else axis
    kind = layer_kind(layer)
    if kind == LayerKind.NORMALIZATION:
        axis = getattr(layer, "axis", -1)
        axis = axis[-1] if isinstance(axis, (list, tuple)) and axis else axis
        return axis if isinstance(axis, int) else -1
    if getattr(layer, "data_format", None) != "channels_first":
        return -1
    # A convolutional recurrence that returns sequences has a time axis before the channels.
    return 2 if kind == LayerKind.RECURRENT and getattr(layer, "return_sequences", False) else 1
