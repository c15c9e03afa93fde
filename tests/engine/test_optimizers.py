"""Every optimizer and schedule against Keras on JAX, step by step."""

import copy
import os

import numpy as np
import pytest

from stethoscope.engine import Dense, Sequential, optimizers, schedules

os.environ.setdefault("KERAS_BACKEND", "jax")

STEPS = 50
NOT_THERE = {
    "Adafactor",
    "Ftrl",
    "Lamb",
    "LossScaleOptimizer",
    "MultiOptimizer",
    "Muon",
    "Optimizer",
    "OptimizerMap",
    "ScheduleFreeAdamW",
    "deserialize",
    "get",
    "legacy",
    "schedules",
    "serialize",
}
"""Public names of keras.optimizers that the engine does not have; asking for one is an error."""

OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"learning_rate": 0.5, "weight_decay": 0.1}),
    ("SGD", {"clipnorm": 0.1}),
    ("SGD", {"clipvalue": 0.05}),
    ("SGD", {"global_clipnorm": 0.1}),
    ("SGD", {"global_clipnorm": 1e6}),
    ("Adam", {}),
    ("Adam", {"learning_rate": 0.01, "beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"weight_decay": 0.01, "clipnorm": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"weight_decay": 0.1, "amsgrad": True}),
    ("Nadam", {}),
    ("Nadam", {"beta_1": 0.8, "beta_2": 0.99, "epsilon": 1e-4, "weight_decay": 0.01}),
    ("Adamax", {}),
    ("Adamax", {"beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-2, "clipvalue": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"rho": 0.5, "epsilon": 1e-3, "momentum": 0.9}),
    ("RMSprop", {"centered": True, "epsilon": 1e-3}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "epsilon": 1e-2, "weight_decay": 0.01}),
    ("Adagrad", {}),
    ("Adagrad", {"initial_accumulator_value": 1.0, "epsilon": 1e-2, "global_clipnorm": 0.1}),
    ("Adadelta", {"learning_rate": 1.0}),
    ("Adadelta", {"rho": 0.5, "epsilon": 1e-3, "clipnorm": 0.1}),
    ("Lion", {}),
    ("Lion", {"beta_1": 0.5, "beta_2": 0.5, "weight_decay": 0.1}),
]
SCHEDULES = [
    ("ExponentialDecay", {"decay_steps": 7, "decay_rate": 0.5}),
    ("ExponentialDecay", {"decay_steps": 7, "decay_rate": 0.5, "staircase": True}),
    ("InverseTimeDecay", {"decay_steps": 7, "decay_rate": 0.5}),
    ("InverseTimeDecay", {"decay_steps": 7, "decay_rate": 0.5, "staircase": True}),
    ("PolynomialDecay", {"decay_steps": 20}),
    ("PolynomialDecay", {"decay_steps": 20, "end_learning_rate": 0.01, "power": 2.0}),
    ("PolynomialDecay", {"decay_steps": 20, "cycle": True}),
    ("CosineDecay", {"decay_steps": 20}),
    ("CosineDecay", {"decay_steps": 20, "alpha": 0.1}),
    ("CosineDecay", {"decay_steps": 20, "warmup_target": 0.3, "warmup_steps": 10}),
    ("CosineDecayRestarts", {"first_decay_steps": 7}),
    ("CosineDecayRestarts", {"first_decay_steps": 7, "t_mul": 1.0, "m_mul": 0.5}),
    ("CosineDecayRestarts", {"first_decay_steps": 10, "t_mul": 1.5, "m_mul": 0.8, "alpha": 0.1}),
    ("CosineDecayRestarts", {"first_decay_steps": 5, "t_mul": 3.0}),
]


def told(case):
    return "-".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])


def keras():
    return pytest.importorskip("keras")


def problem(dtype=np.float32):
    """Two weights, and a gradient that depends on them, so that a mistake grows."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 4)).astype(dtype), rng.normal(size=(16, 3)).astype(dtype)
    weights = {"d/kernel": rng.normal(size=(4, 3)).astype(dtype), "d/bias": np.ones(3, dtype)}

    def loss(weights):
        error = x @ weights["d/kernel"] + weights["d/bias"] - y
        value = float((error * error).mean())
        back = error * (2 / error.size)
        return value, {"d/kernel": x.T @ back, "d/bias": back.sum(axis=0)}

    return weights, loss


def trajectory(optimizer, steps=STEPS, weights=None):
    start, loss = problem()
    weights, losses = dict(start if weights is None else weights), []
    for _ in range(steps):
        value, gradients = loss(weights)
        losses.append(value)
        weights |= optimizer.update(weights, gradients)
    return losses, weights


def keras_trajectory(optimizer, undecayed=()):
    """The same steps by Keras, on the same gradient function; also the optimizer's variables."""
    import jax

    start, loss = problem()
    variables = [keras().Variable(w, name=name.split("/")[1]) for name, w in start.items()]
    optimizer.build(variables)
    if undecayed:
        optimizer.exclude_from_weight_decay(var_names=list(undecayed))
    apply = jax.jit(optimizer.stateless_apply)
    state, values, losses = [v.value for v in optimizer.variables], [v.value for v in variables], []
    for _ in range(STEPS):
        weights = dict(zip(start, map(np.asarray, values), strict=True))
        value, gradients = loss(weights)
        losses.append(value)
        values, state = apply(state, list(gradients.values()), values)
    weights = dict(zip(start, map(np.asarray, values), strict=True))
    names = [v.path for v in optimizer.variables]
    return losses, weights, dict(zip(names, map(np.asarray, state), strict=True))


@pytest.mark.parametrize("case", OPTIMIZERS, ids=told)
def test_trajectory(case):
    kind, settings = case
    optimizer = getattr(optimizers, kind)(**settings)
    found, weights = trajectory(optimizer)
    expected, of_keras, state = keras_trajectory(getattr(keras().optimizers, kind)(**settings))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    for name, weight in weights.items():
        assert weight.dtype == np.float32
        np.testing.assert_allclose(weight, of_keras[name], rtol=1e-3, atol=1e-5)
        for slot, kept in optimizer.state[name].items():
            assert kept.dtype == np.float32
            path = f"{name.split('/')[1]}_{slot}"
            (same,) = (value for key, value in state.items() if key.endswith(path))
            np.testing.assert_allclose(kept, same, rtol=1e-3, atol=1e-5, err_msg=slot)
    ours = {f"{name.split('/')[1]}_{slot}" for name in weights for slot in optimizer.state[name]}
    theirs = {path.rsplit("/", 1)[-1] for path in state} - {"iteration", "learning_rate"}
    assert ours == {path for path in theirs if "variable" not in path}  # Nadam's product


@pytest.mark.parametrize("case", SCHEDULES, ids=told)
def test_schedule(case):
    kind, settings = case
    schedule = getattr(schedules, kind)(0.1, **settings)
    expected = getattr(keras().optimizers.schedules, kind)(0.1, **settings)
    found = [schedule(step) for step in range(STEPS)]
    import jax

    compiled = jax.jit(expected)
    np.testing.assert_allclose(found, [float(compiled(s)) for s in range(STEPS)], atol=1e-7)
    assert all(isinstance(rate, float) for rate in found)
    losses, _ = trajectory(optimizers.Adam(schedule))
    same, _, _ = keras_trajectory(keras().optimizers.Adam(expected))
    np.testing.assert_allclose(losses, same, rtol=1e-4)


def test_piecewise_schedule():
    settings = {"boundaries": [3, 7], "values": [0.3, 0.2, 0.1]}
    schedule = schedules.PiecewiseConstantDecay(**settings)
    expected = keras().optimizers.schedules.PiecewiseConstantDecay(**settings)
    np.testing.assert_allclose([schedule(s) for s in range(9)], [expected(s) for s in range(9)])


def test_rate_is_that_of_the_coming_update():
    optimizer = optimizers.SGD(schedules.ExponentialDecay(1.0, 1, 0.5))
    weights = {"w": np.zeros(1)}
    assert optimizer.rate == 1.0
    weights = optimizer.update(weights, {"w": np.ones(1)})
    assert (optimizer.rate, weights["w"][0]) == (0.5, -1.0)


def test_weights_that_do_not_decay():
    settings = {"learning_rate": 0.5, "weight_decay": 0.1}
    optimizer = optimizers.SGD(**settings)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    _, weights = trajectory(optimizer)
    _, expected, _ = keras_trajectory(keras().optimizers.SGD(**settings), undecayed=["bias"])
    listed = optimizers.SGD(**settings)
    listed.exclude_from_weight_decay(var_list=["d/bias"])
    _, same = trajectory(listed)
    for name in weights:
        np.testing.assert_allclose(weights[name], expected[name], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(weights[name], same[name])


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Nadam", "RMSprop", "Adadelta", "Lion"])
def test_a_restored_optimizer_goes_on(kind):
    settings = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    whole = getattr(optimizers, kind)(**settings)
    _, weights = trajectory(whole, 10)
    state = {name: {k: v.copy() for k, v in arrays.items()} for name, arrays in whole.state.items()}
    for arrays in state.values():  # as the arrays of a framework may be
        for array in arrays.values():
            array.flags.writeable = False
    resumed = getattr(optimizers, kind)(**settings)
    resumed.restore(10, state)
    _, expected = trajectory(whole, 5, weights)
    _, found = trajectory(resumed, 5, weights)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_product_of_nadam_is_one_number_also_when_restored():
    whole, resumed = optimizers.Nadam(), optimizers.Nadam()
    trajectory(whole, 50)
    resumed.restore(50, whole.state)
    assert 0 < whole.product < 0.9**25
    assert resumed.product == whole.product
    resumed.restore(0, {})
    assert resumed.product == 1
    assert not [held for held in vars(whole).values() if isinstance(held, list) and len(held) > 9]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_copy_goes_on_by_itself(kind):
    settings = {"momentum": 0.9} if kind == "SGD" else {}
    whole = getattr(optimizers, kind)(**settings)
    _, weights = trajectory(whole, 3)
    other = copy.deepcopy(whole)
    _, expected = trajectory(whole, 3, weights)
    _, found = trajectory(other, 3, weights)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
        for slot, array in whole.state[name].items():
            np.testing.assert_array_equal(other.state[name][slot], array)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Lion"])
def test_large_weights_move_as_small_ones(kind, monkeypatch):
    _, together = trajectory(getattr(optimizers, kind)(weight_decay=0.01))
    monkeypatch.setattr(optimizers._base, "LARGE", 4)
    _, apart = trajectory(getattr(optimizers, kind)(weight_decay=0.01))
    for name, weight in together.items():
        np.testing.assert_array_equal(apart[name], weight)


def test_weights_that_somebody_replaced():
    """The optimizer moves the weights that it is given, not those that it gave last."""
    optimizer = optimizers.SGD(1.0)
    gradients = {"a": np.ones(2), "b": np.ones((1, 2))}
    weights = optimizer.update({"a": np.zeros(2), "b": np.zeros((1, 2))}, gradients)
    weights["b"] = np.full((1, 2), 7.0)
    weights = optimizer.update(weights, gradients)
    assert weights["a"].tolist() == [-2.0, -2.0]
    assert weights["b"].tolist() == [[6.0, 6.0]]
    assert optimizer.update({"b": np.zeros((1, 2))}, {"b": gradients["b"]})["b"].tolist() == [
        [-1.0, -1.0]
    ]


def test_a_state_of_another_optimizer():
    with pytest.raises(ValueError, match=r"keeps \['momentum', 'velocity'\].*got \['norm'\]"):
        optimizers.Adam().restore(1, {"w": {"norm": np.zeros(1)}})


@pytest.mark.parametrize("kind", ["clipnorm", "clipvalue", "global_clipnorm", "weight_decay"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "Adadelta"])
def test_nothing_that_is_given_is_changed(optimizer, kind):
    weights, loss = problem(np.float64)
    _, gradients = loss(weights)
    before = [a.copy() for a in (*weights.values(), *gradients.values())]
    new = getattr(optimizers, optimizer)(**{kind: 0.01}).update(weights, gradients)
    for array, same in zip((*weights.values(), *gradients.values()), before, strict=True):
        np.testing.assert_array_equal(array, same)
    assert all(array.dtype == np.float64 for array in new.values())


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("kind", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_clipping_of_what_is_not_finite(kind, bad):
    """One infinite gradient makes all weights NaN under global_clipnorm only, as in Keras."""
    start, _ = problem()
    gradients = {name: np.full_like(w, 0.1) for name, w in start.items()}
    gradients["d/bias"][0] = bad
    with np.errstate(invalid="ignore"):
        new = optimizers.SGD(**{kind: 0.5}).update(start, gradients)
    variables = [keras().Variable(w) for w in start.values()]
    same = keras().optimizers.SGD(**{kind: 0.5})
    same.build(variables)
    same.apply([np.asarray(g) for g in gradients.values()], variables)
    for found, variable in zip(new.values(), variables, strict=True):
        np.testing.assert_allclose(found, np.asarray(variable.value), rtol=1e-5)


def test_a_whole_model():
    """The same weights and batches: the loss of every epoch and the metrics as Keras logs them."""
    k = keras()
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 4)).astype(np.float32)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
    layers = [Dense(5, "tanh"), Dense(3, "softmax")]
    model = Sequential(layers, input_shape=(4,), seed=2)
    metrics = ["accuracy", "sparse_top_k_categorical_accuracy"]
    model.compile(optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=metrics)
    same = k.Sequential([k.Input((4,)), k.layers.Dense(5, "tanh"), k.layers.Dense(3, "softmax")])
    same.set_weights(list(model.network.weights.values()))
    same.compile(
        k.optimizers.Adam(0.01),
        "sparse_categorical_crossentropy",
        metrics=metrics,
    )
    settings = {"batch_size": 16, "epochs": 12, "shuffle": False, "validation_data": (x, y)}
    found = model.fit(x, y, **settings).history
    expected = same.fit(x, y, verbose=0, **settings).history
    assert found.keys() == expected.keys()
    for figure, values in expected.items():
        np.testing.assert_allclose(found[figure], values, rtol=1e-3, err_msg=figure)
    for weight, other in zip(model.network.weights.values(), same.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-3, atol=1e-4)


def test_names_are_those_of_keras():
    public = {name for name in dir(keras().optimizers) if not name.startswith("_")}
    assert public >= NOT_THERE
    for name in public - NOT_THERE:
        assert type(optimizers.get(name)).__name__ == name
        assert optimizers.get(name.lower()).name == name.lower()
    for name in NOT_THERE:
        with pytest.raises(ValueError, match="known are adadelta"):
            optimizers.get(name)
    public = {name for name in dir(keras().optimizers.schedules) if name[0].isupper()}
    assert public - {"LearningRateSchedule"} <= set(dir(schedules))


def test_defaults_are_those_of_keras():
    for name in set(dir(keras().optimizers)) & set(optimizers.__all__) - {"Optimizer", "get"}:
        config = getattr(keras().optimizers, name)().get_config()
        for key, value in vars(getattr(optimizers, name)()).items():
            if key in config and key != "name":
                assert value == pytest.approx(config[key]) if value else not config[key], (
                    name,
                    key,
                )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clipnorm": 1.0, "clipvalue": 1.0}, "only one of"),
        ({"use_ema": True}, "moving average"),
        ({"gradient_accumulation_steps": 2}, "after every batch"),
        ({"loss_scale_factor": 2.0}, "scale losses"),
        ({"momentum": 2.0}, r"within \[0, 1\]"),
        ({"decay": 0.1}, "no argument decay"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else "",
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        optimizers.SGD(**settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedules.CosineDecay(0.1, 0),
        lambda: schedules.ExponentialDecay(0.1, -1, 0.5),
        lambda: schedules.PiecewiseConstantDecay([1], [0.1]),
        lambda: optimizers.AdamW(weight_decay=None),
        lambda: optimizers.Lion(beta_1=0.0),
    ],
    ids=["cosine", "exponential", "piecewise", "adamw", "lion"],
)
def test_arguments_that_cannot_be(make):
    with pytest.raises(ValueError, match=r"more than|is a number|within"):
        make()
