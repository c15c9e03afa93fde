"""The PyTorch adapter: `watch` a model in a training loop, or `install` into a whole script."""

from stethoscope.torch.watch import Scope, install, watch

__all__ = ["Scope", "install", "watch"]
