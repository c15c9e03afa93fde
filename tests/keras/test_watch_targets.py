"""Every target belongs to the loss that takes it, however outputs, losses and targets are given."""

import keras
import numpy as np
import pytest
from keras import layers as kl

from stethoscope import trace
from stethoscope.keras import Stethoscope
from stethoscope.keras.feed import Feed, FitCall
from stethoscope.keras.losses import End
from stethoscope.program import FitSpec
from stethoscope.types import Severity, Slot, Stage, Stat

SEEN = keras.backend.backend() != "tensorflow"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
VALUE = (3 * X[:, :1] + 0.3).astype("float32")
CATEGORY = (X[:, 1] > 0).astype("int32") + (X[:, 2] > 0)
LOSSES = {"value": "mse", "category": "sparse_categorical_crossentropy"}


class Subclassed(keras.Model):
    def __init__(self, named):
        super().__init__()
        self.value, self.category = kl.Dense(1), kl.Dense(3, activation="softmax")
        self.named = named

    def call(self, x):
        value, category = self.value(x), self.category(x)
        return {"value": value, "category": category} if self.named else [value, category]


def model(outputs, losses):
    keras.utils.set_random_seed(0)
    if outputs.startswith("subclassed"):
        made = Subclassed(outputs.endswith("dict"))
    else:
        inputs = keras.Input((4,))
        value = kl.Dense(1, name="value")(inputs)
        category = kl.Dense(3, activation="softmax", name="category")(inputs)
        named = {"value": value, "category": category}
        made = keras.Model(inputs, named if outputs == "dict" else [value, category])
    made.compile("sgd", LOSSES if losses == "dict" else list(LOSSES.values()))
    return made


def last_row(made, x, y, tmp_path):
    scope = Stethoscope(quiet=True, trace_dir=str(tmp_path))
    made.fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[scope])
    assert scope._fits.session.notes == []
    return list(trace.read(scope.report.meta["trace"]).rows())[-1]


@pytest.mark.parametrize(
    ("outputs", "losses", "targets"),
    [
        ("list", "dict", "dict"),
        ("list", "dict", "list"),
        ("list", "list", "dict"),
        ("list", "list", "list"),
        ("dict", "dict", "dict"),
        ("subclassed dict", "dict", "dict"),
        ("subclassed list", "list", "list"),
    ],
)
def test_each_loss_has_its_own_targets_and_predictions(outputs, losses, targets, tmp_path):
    y = {"value": VALUE, "category": CATEGORY} if targets == "dict" else [VALUE, CATEGORY]
    row = last_row(model(outputs, losses), X, y, tmp_path)
    program = row.program
    units = {"mse": 1, "sparse_categorical_crossentropy": 3}
    assert {loss.name for loss in program.losses} == set(units)
    for i, loss in enumerate(program.losses):
        assert program.targets[i].integer_valued == (loss.name != "mse")
        assert loss.target == program.targets[i]
        assert loss.target_shape == ((8, 1) if loss.name == "mse" else (8,))
        if SEEN:
            assert loss.prediction_shape == (8, units[loss.name])
            seen = row.get(Slot("", str(i), Stage.TARGET), Stat.MAX)
            last = VALUE[16:] if loss.name == "mse" else CATEGORY[16:]
            assert seen == pytest.approx(last.max(), rel=1e-5)


@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")
def test_an_output_without_a_loss_moves_no_target(tmp_path):
    made = model("list", "list")
    made.compile("sgd", [None, "sparse_categorical_crossentropy"])
    program = last_row(made, X, [VALUE, CATEGORY], tmp_path).program
    assert program.losses[0].target.class_counts == program.targets[0].class_counts != ()


@pytest.mark.parametrize("ignored", [-100, 255, 3, 0])
def test_an_ignored_label_enters_no_fact_of_the_targets(ignored, tmp_path):
    labels = np.where(np.arange(24) % 5 == 0, ignored, 1 + np.arange(24) % 2)
    made = keras.Sequential([kl.Dense(3, activation="softmax")])
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(ignore_class=ignored))
    target = last_row(made, X, labels, tmp_path).program.targets[0]
    assert [kind for kind, _ in target.class_counts] == [1.0, 2.0]
    assert sum(count for _, count in target.class_counts) == (labels != ignored).sum()
    assert (target.min, target.max, target.nonfinite_share) == (1.0, 2.0, 0.0)
    assert target.shape == ()


def test_an_ignored_label_is_left_out_batch_by_batch_too():
    feed = Feed(FitCall(FitSpec()), [End(ignore=7)])
    feed.batch(X[:4], np.array([[7, 1], [7, 2], [2, 1], [1, 7]]))
    assert feed.targets()[0].class_counts == ((1.0, 3), (2.0, 2))


@pytest.mark.parametrize("weights", [True, False])
def test_labels_that_weights_leave_out_are_no_error(weights, tmp_path):
    labels = np.where(np.arange(len(X)) % 5 == 0, -1, np.arange(len(X)) % 2)
    made = keras.Sequential([kl.Dense(2, activation="softmax")])
    made.compile("sgd", "sparse_categorical_crossentropy")
    watch = Stethoscope(trace_dir=str(tmp_path), quiet=True)
    given = {"sample_weight": (labels >= 0).astype("float32")} if weights else {}
    made.fit(X, labels, epochs=2, batch_size=8, verbose=0, callbacks=[watch], **given)
    (found,) = [d for d in watch.report.diagnoses if d.fault == "label-encoding"]
    assert found.severity is (Severity.NOTE if weights else Severity.ERROR)
