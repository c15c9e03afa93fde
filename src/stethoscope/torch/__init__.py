"""The PyTorch adapter: `watch` a model in a training loop, or `install` into a whole script."""

from stethoscope.scope import Scope
from stethoscope.torch.watch import install, watch

__all__ = ["Scope", "install", "watch"]
