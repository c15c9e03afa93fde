"""What cannot be seen of a PyTorch program, and why: stage to reason."""

from __future__ import annotations

from stethoscope.types import Stage

OF_A_CALL = (
    Stage.INPUT,
    Stage.TARGET,
    Stage.PRE_ACTIVATION,
    Stage.OUTPUT,
    Stage.LOSS,
    Stage.METRIC,
    Stage.OUTPUT_GRAD,
)
NOT_CALLED: dict[str, str] = dict.fromkeys(
    OF_A_CALL,
    "the model was never called in training mode with gradients enabled, outside a compiled "
    "function: only weights, gradients and updates were seen",
)
COMPILED: dict[str, str] = dict.fromkeys(
    (Stage.PRE_ACTIVATION, Stage.OUTPUT, Stage.OUTPUT_GRAD),
    "the model is compiled: what happens inside its forward pass is not seen",
)
MODE_OF_THE_USER: dict[str, str] = {
    Stage.LOSS: "a torch function mode of the program was active around the model's call; "
    "calls of loss functions and activations were not seen"
}
BY_HAND: dict[str, str] = dict.fromkeys(
    (Stage.HYPER, Stage.WEIGHT_GRAD),
    "the program updates its weights itself: no torch.optim optimizer was seen",
)
