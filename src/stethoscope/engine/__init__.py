"""The engine: networks in plain NumPy, of which every intermediate value can be read."""

from stethoscope.engine.layers.activation import Activation
from stethoscope.engine.layers.dense import Dense
from stethoscope.engine.layers.merge import Add
from stethoscope.engine.model import Model, Sequential
from stethoscope.engine.network import Input, Network
from stethoscope.engine.training import History, Step
from stethoscope.engine.watch import install, watch

__all__ = [
    "Activation",
    "Add",
    "Dense",
    "History",
    "Input",
    "Model",
    "Network",
    "Sequential",
    "Step",
    "install",
    "watch",
]
