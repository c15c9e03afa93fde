"""Stethoscope listens to a neural network while it trains and says what is wrong, and where."""

__version__ = "0.1.0"
