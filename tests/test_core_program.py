"""The questions that rules ask of a Program."""

import itertools

import pytest

from stethoscope.program import DataSpec, FitSpec, LayerSpec, LossSpec, Program
from stethoscope.vocabulary import LayerKind, TargetKind


def layer(path, kind=LayerKind.DENSE, activation=None, params=True):
    weights = {"kernel": (2, 2)} if params else {}
    return LayerSpec(path, path.title(), kind, activation, params=weights)


def chain(*layers, **rest):
    paths = ["", *(spec.path for spec in layers)]
    edges = tuple(itertools.pairwise(paths))
    return Program("torch", layers=layers, edges=edges, **rest)


DENSE = layer("dense", activation="linear")
RELU = layer("relu", LayerKind.ACTIVATION, "relu", params=False)
TANH = layer("tanh", LayerKind.ACTIVATION, "tanh", params=False)
DROP = layer("drop", LayerKind.DROPOUT, params=False)
NORM = layer("norm", LayerKind.NORMALIZATION, "linear")
ODD = layer("odd", LayerKind.OTHER, params=False)
LAST = layer("last", activation="linear")


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (chain(layer("dense", activation="tanh"), LAST), ("tanh", "dense")),
        (chain(DENSE, RELU), ("relu", "relu")),
        (chain(DENSE, NORM, DROP, RELU), ("relu", "relu")),
        (chain(DENSE, LAST, RELU), ("linear", "dense")),
        (chain(DENSE), ("linear", "dense")),
        (chain(DENSE, DROP), ("linear", "dense")),
        (chain(DENSE, ODD, RELU), None),
        (chain(layer("dense"), RELU), None),
        (chain(RELU), None),
    ],
    ids=["own", "next", "through", "layer-first", "end", "end-through", "odd", "unknown", "absent"],
)
def test_activation_after(program, answer):
    found = program.activation_after("dense")
    assert (found and (found[0], found[1].path)) == answer


def test_activation_after_a_fork_that_disagrees_is_unknown():
    program = Program(
        "torch", layers=(DENSE, RELU, TANH), edges=(("dense", "relu"), ("dense", "tanh"))
    )
    assert program.activation_after("dense") is None


def test_producer_is_the_layer_with_weights_upstream():
    program = chain(DENSE, NORM, RELU)
    assert program.producer("relu") == DENSE
    assert program.producer("absent") is None


def test_producer_of_a_merge_is_unknown():
    merged = layer("add", LayerKind.MERGE, params=False)
    edges = (("dense", "add"), ("last", "add"))
    assert Program("t", layers=(DENSE, LAST, merged), edges=edges).producer("add") is None


@pytest.mark.parametrize("question", ["producer", "activation_after"])
def test_a_loop_in_the_flow_ends(question):
    program = Program("t", layers=(DROP, RELU), edges=(("drop", "relu"), ("relu", "drop")))
    assert getattr(program, question)("drop") is None


def test_output_layers_are_those_the_losses_read():
    flow = chain(DENSE, LAST)
    assert flow.output_layers() == (LAST,)
    named = chain(DENSE, LAST, losses=(LossSpec("mse", "MSE", output="dense"),))
    assert named.output_layers() == (DENSE,)


def test_planned_steps_need_both_figures():
    assert FitSpec(epochs=3, steps_per_epoch=5).planned_steps == 15
    assert FitSpec(epochs=3).planned_steps is None


@pytest.mark.parametrize(
    ("facts", "believable"),
    [
        ({"complete": True}, True),
        ({"batches_seen": 19}, False),
        ({"batches_seen": 20}, True),
        ({"batches_seen": 500, "shuffled": False}, False),
    ],
)
def test_ranges_accuse_only_when_enough_was_seen(facts, believable):
    assert DataSpec(**facts).believable is believable


def test_target_kind_of_an_unknown_loss_is_unknown():
    assert LossSpec("mse", "MSELoss").target_kind is TargetKind.REAL
    assert LossSpec(None, "my_loss").target_kind is None
