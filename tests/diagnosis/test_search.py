"""From a layer to the line that wrote it, by reading small sources."""

import pathlib
import textwrap

import pytest

from stethoscope.diagnosis.search import find_call, find_layer


def write(tmp_path, text):
    """The file, and the number of the line that ends in `# here` (None where there is none)."""
    text = textwrap.dedent(text).strip() + "\n"
    file = tmp_path / "user_program.py"
    file.write_text(text)
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# here")]
    return str(file), (lines[0] if lines else None)


def load(file, name):
    """The class `name` of `file`, with stand-ins for the framework."""

    class Any:
        def __init__(self, *args, **kwargs):
            pass

        def __getattr__(self, name):
            return Any

    space = {"__name__": "user_program", "nn": Any(), "Module": type("Module", (), {})}
    exec(compile(pathlib.Path(file).read_text(), file, "exec"), space)
    return space[name]


def line_of(ref):
    return None if ref is None else ref.line


IN_CLASS = {
    "attribute": ("fc1", "Linear", "self.fc1 = nn.Linear(3, 4)  # here"),
    "annotated": ("fc1", "Linear", "self.fc1: Module = nn.Linear(3, 4)  # here"),
    "tuple": ("b", "ReLU", "self.a, self.b = nn.Linear(3, 4), nn.ReLU()  # here"),
    "moved": ("fc1", "Linear", "self.fc1 = nn.Linear(3, 4).to('cpu')  # here"),
    "wrapped": ("fc1", "Linear", "self.fc1 = spectral_norm(nn.Linear(3, 4))  # here"),
    "lazy": ("fc1", "Linear", "self.fc1 = nn.LazyLinear(4)  # here"),
    "several lines": (
        "fc1",
        "Linear",
        """
        self.fc1 = nn.Linear(  # here
            3,
            4,
        )""",
    ),
    "second argument": (
        "net.1",
        "ReLU",
        """
        self.net = nn.Sequential(
            nn.Linear(3, 4),
            nn.ReLU(),  # here
            nn.Linear(4, 1),
        )""",
    ),
    "nested": (
        "net.1.0",
        "Linear",
        """
        self.net = nn.Sequential(
            nn.Linear(3, 4),
            nn.Sequential(
                nn.Linear(4, 1),  # here
            ),
        )""",
    ),
    "unpacked list": (
        "net.2",
        "Linear",
        """
        layers = [nn.Linear(3, 4), nn.ReLU()]
        layers.append(nn.Linear(4, 1))  # here
        self.net = nn.Sequential(*layers)""",
    ),
    "list that grows": (
        "net.1",
        "ReLU",
        """
        layers = [nn.Linear(3, 4)]
        layers += [nn.ReLU()]  # here
        self.net = nn.Sequential(*layers)""",
    ),
    "loop": (
        "net.3",
        "ReLU",
        """
        layers = []
        for _ in range(3):
            layers.append(nn.Linear(3, 3))
            layers.append(nn.ReLU())  # here
        self.net = nn.Sequential(*layers)""",
    ),
    "after a loop, the only one of its class": (
        "net.6",
        "Softmax",
        """
        layers = []
        for _ in range(3):
            layers += [nn.Linear(3, 3), nn.ReLU()]
        layers.append(nn.Softmax(dim=1))  # here
        self.net = nn.Sequential(*layers)""",
    ),
    "comprehension": (
        "layers.2",
        "Linear",
        "self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])  # here",
    ),
    "appended to a module list": (
        "layers.1",
        "Linear",
        """
        self.layers = nn.ModuleList()
        for width in (3, 4):
            self.layers.append(nn.Linear(width, width))  # here""",
    ),
    "dictionary": (
        "heads.b",
        "Linear",
        """
        self.heads = nn.ModuleDict({
            "a": nn.Linear(3, 1),
            "b": nn.Linear(3, 2),  # here
        })""",
    ),
    "ordered dictionary": (
        "net.act",
        "ReLU",
        """
        self.net = nn.Sequential(OrderedDict([
            ("fc", nn.Linear(3, 1)),
            ("act", nn.ReLU()),  # here
        ]))""",
    ),
    "registered": ("fc", "Linear", "self.add_module('fc', nn.Linear(3, 4))  # here"),
    "registered in a loop": (
        "fc1",
        "Linear",
        """
        for i in range(3):
            setattr(self, f"fc{i}", nn.Linear(3, 4))  # here""",
    ),
    "a class of the file": ("block.fc", "Conv2d", "self.block = Block()"),
    "classes in a list": ("blocks.1.fc", "Conv2d", "self.blocks = nn.Sequential(Block(), Block())"),
    "a function of the file": ("act", "GELU", "self.act = make_activation()"),
    "of the base class": ("stem", "Tanh", "pass"),
    "a local variable": (
        "fc1",
        "Linear",
        """
        layer = nn.Linear(3, 4)  # here
        self.fc1 = layer""",
    ),
    "either of two": (
        "act",
        "ReLU",
        """
        if True:
            self.act = nn.ReLU()  # here
        else:
            self.act = nn.Tanh()""",
    ),
}

CLASS = """
def spectral_norm(module):
    return module

def make_activation():
    return nn.GELU(){function}

class Block(Module):
    def __init__(self):
        self.fc = nn.Conv2d(1, 2, 3){block}

class Base(Module):
    def __init__(self):
        self.stem = nn.Tanh(){base}

class Net(Base):
    def __init__(self):
{body}

    def forward(self, x):
        return x
"""


def net(tmp_path, path, body):
    mark = "  # here"
    text = CLASS.format(
        function=mark if path == "act" and "make_activation" in body else "",
        block=mark if "Block" in body else "",
        base=mark if path == "stem" else "",
        body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8),
    )
    file, line = write(tmp_path, text)
    return load(file, "Net"), line


@pytest.mark.parametrize(("path", "name", "body"), IN_CLASS.values(), ids=IN_CLASS)
def test_a_layer_of_a_class_is_found_at_its_line(tmp_path, path, name, body):
    cls, line = net(tmp_path, path, body)
    assert line is not None
    ref = find_layer(cls, path, name, 0)
    assert line_of(ref) == line
    assert ref.exact is False
    assert ref.file.endswith("user_program.py")
    assert name in ref.text or "make_activation" in body


def test_a_call_over_several_lines_says_where_it_ends(tmp_path):
    cls, line = net(tmp_path, *IN_CLASS["several lines"][::2])
    ref = find_layer(cls, "fc1", "Linear", 0)
    assert (ref.line, ref.end_line) == (line, line + 3)


UNCERTAIN = {
    "another class": ("fc1", "Conv2d", "self.fc1 = nn.Linear(3, 4)"),
    "another attribute": ("fc9", "Linear", "self.fc1 = nn.Linear(3, 4)"),
    "beyond the arguments": ("net.5", "Linear", "self.net = nn.Sequential(nn.Linear(1, 2))"),
    "two assignments": (
        "fc1",
        "Linear",
        """
        if True:
            self.fc1 = nn.Linear(3, 4)
        else:
            self.fc1 = nn.Linear(3, 5)""",
    ),
    "in or after a loop": (
        "net.4",
        "Linear",
        """
        layers = []
        for _ in range(3):
            layers.append(nn.Linear(3, 3))
        layers.append(nn.Linear(3, 1))
        self.net = nn.Sequential(*layers)""",
    ),
    "as far as written in or after a loop": (
        "net.1",
        "Linear",
        """
        layers = []
        for _ in range(3):
            layers.append(nn.Linear(3, 3))
        layers.append(nn.Linear(3, 1))
        self.net = nn.Sequential(*layers)""",
    ),
    "made elsewhere": ("fc1", "Linear", "self.fc1 = library.make()"),
    "two in one expression": (
        "fc1",
        "Linear",
        "self.fc1 = choose(nn.Linear(1, 2), nn.Linear(1, 3))",
    ),
}


@pytest.mark.parametrize(("path", "name", "body"), UNCERTAIN.values(), ids=UNCERTAIN)
def test_an_uncertain_layer_is_none(tmp_path, path, name, body):
    file, _ = write(
        tmp_path,
        CLASS.format(
            function="",
            block="",
            base="",
            body=textwrap.indent(textwrap.dedent(body).strip(), " " * 8),
        ).replace(
            "class Net(Base):\n    def __init__(self):", "class Net(Base):\n    def build(self):"
        ),
    )
    assert find_layer(load(file, "Net"), path, name, 0) is None


def test_a_class_of_a_library_is_none():
    assert find_layer(textwrap.TextWrapper, "width", "int", 0) is None


def test_two_classes_of_one_name_are_told_apart(tmp_path):
    file, line = write(
        tmp_path,
        """
        class Outer(Module):
            class Net(Module):
                def __init__(self):
                    self.fc = nn.Linear(1, 2)

        class Net(Module):
            def __init__(self):
                self.fc = nn.Linear(3, 4)  # here
        """,
    )
    assert line_of(find_layer(load(file, "Net"), "fc", "Linear", 0)) == line
    assert line_of(find_layer(load(file, "Outer").Net, "fc", "Linear", 0)) == 4


IN_FILE = {
    "module variable": (
        ("model.1", "ReLU", 0),
        """
        model = nn.Sequential(
            nn.Linear(3, 4),
            nn.ReLU(),  # here
        )""",
    ),
    "the only container": (
        ("1", "ReLU", 0),
        """
        def build():
            return nn.Sequential(
                nn.Linear(3, 4),
                nn.ReLU(),  # here
            )""",
    ),
    "keras list": (
        ("dense_1", "Dense", 1),
        """
        model = keras.Sequential([
            layers.Dense(3, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(1),  # here
        ])""",
    ),
    "keras add": (
        ("dense_7", "Dense", 1),
        """
        model = Sequential()
        model.add(Dense(3))
        model.add(Activation("relu"))
        model.add(Dense(1))  # here""",
    ),
    "keras functional": (
        ("dense_1", "Dense", 1),
        """
        x = inputs = Input((3,))
        x = Dense(8)(x)
        x = Dropout(0.1)(x)
        out = Dense(1)(x)  # here
        model = Model(inputs, out)""",
    ),
    "keras name": (
        ("hidden", "Dense", 5),
        """
        a = Dense(8, name="visible")(x)
        b = Dense(8, name="hidden")(a)  # here""",
    ),
    "imported under another name": (
        ("", "Dense", 0),
        """
        from keras.layers import Dense as D
        x = D(8)(x)  # here""",
    ),
    "within a wrapper it is no layer": (
        ("", "Dense", 0),
        """
        x = TimeDistributed(Dense(4))(x)
        x = Dense(1)(x)  # here""",
    ),
    "the loop's only one": (
        ("dense_3", "Dense", 3),
        """
        for _ in range(12):
            model.add(Dense(9, activation="sigmoid"))  # here""",
    ),
    "before a loop": (
        ("", "Dense", 0),
        """
        model.add(Dense(9))  # here
        for _ in range(12):
            model.add(Dense(9))
        model.add(Dense(1))""",
    ),
    "after a loop": (
        ("", "Dense", 13, 14),
        """
        model.add(Dense(9))
        for _ in range(12):
            model.add(Dense(9))
        model.add(Dense(1))  # here""",
    ),
    "within a loop": (
        ("", "Dense", 5, 14),
        """
        model.add(Dense(9))
        for _ in range(12):
            model.add(Dense(9))  # here
        model.add(Dense(1))""",
    ),
    "the model with that many": (
        ("", "Dense", 1, 2),
        """
        one.add(Dense(9))
        two.add(Dense(9))
        two.add(Dense(1))  # here""",
    ),
}


@pytest.mark.parametrize(("asked", "text"), IN_FILE.values(), ids=IN_FILE)
def test_a_layer_of_a_file_is_found_at_its_line(tmp_path, asked, text):
    file, line = write(tmp_path, text)
    assert line is not None
    assert line_of(find_layer(file, *asked)) == line


UNCERTAIN_IN_FILE = {
    "two models": (("", "Dense", 1), "one.add(Dense(9))\ntwo.add(Dense(9))\ntwo.add(Dense(1))"),
    "the longer of two models": (
        ("", "Dense", 2),
        "a.add(Dense(1))\na.add(Dense(2))\nb.add(Dense(1))\nb.add(Dense(2))\nb.add(Dense(3))",
    ),
    "two models alike": (("", "Dense", 0, 1), "one.add(Dense(9))\ntwo.add(Dense(9))"),
    "somewhere in or after a loop": (
        ("", "Dense", 5),
        "for _ in range(3):\n    m.add(Dense(9))\nm.add(Dense(1))",
    ),
    "another number of layers": (("", "Dense", 1, 5), "m.add(Dense(9))\nm.add(Dense(1))"),
    "after a condition": (
        ("", "Dense", 1),
        "m.add(Dense(9))\nif deep:\n    m.add(Dense(9))\nm.add(Dense(1))",
    ),
    "no such class": (("", "Conv2D", 0), "m.add(Dense(9))"),
    "a broken file": (("", "Dense", 0), "m.add(Dense(9)"),
    "an empty file": (("", "Dense", 0), ""),
}


@pytest.mark.parametrize(("asked", "text"), UNCERTAIN_IN_FILE.values(), ids=UNCERTAIN_IN_FILE)
def test_an_uncertain_layer_of_a_file_is_none(tmp_path, asked, text):
    file, _ = write(tmp_path, text)
    assert find_layer(file, *asked) is None


def test_a_file_that_is_not_there_is_none(tmp_path):
    assert find_layer(str(tmp_path / "missing.py"), "fc", "Linear", 0) is None
    assert find_call(str(tmp_path / "missing.py"), ["SGD"]) is None


def test_a_changed_file_is_read_again(tmp_path):
    file, _ = write(tmp_path, "model.add(Dense(1))")
    assert line_of(find_layer(file, "", "Dense", 0)) == 1
    write(tmp_path, "model = Sequential()\n\nmodel.add(Dense(1))  # longer than before")
    assert line_of(find_layer(file, "", "Dense", 0)) == 3


CALLS = {
    "imported module": (["torch.optim.SGD"], None, "import torch\no = torch.optim.SGD(p)  # here"),
    "imported name": (
        ["torch.optim.SGD"],
        None,
        "from torch.optim import SGD as Descent\no = Descent(p)  # here",
    ),
    "imported folder": (
        ["torch.optim.SGD"],
        None,
        "import torch.optim as optim\no = optim.SGD(p, lr=1)  # here",
    ),
    "short name": (["SGD"], None, "import torch\no = torch.optim.SGD(p)  # here"),
    "several names": (["Adam", "SGD"], None, "o = SGD(p)  # here"),
    "method of a variable": ([".compile"], None, "import re\nre.compile('a')\nm.compile()  # here"),
    "method of a new object": ([".fit"], None, "Model(1).fit(x)  # here"),
    "nearest before": (["SGD"], 3, "o = SGD(a)\no = SGD(b)  # here\nstep()\no = SGD(c)"),
    "over several lines": (["SGD"], None, "o = SGD(  # here\n    a,\n)"),
}


@pytest.mark.parametrize(("names", "near", "text"), CALLS.values(), ids=CALLS)
def test_a_call_is_found_at_its_line(tmp_path, names, near, text):
    file, line = write(tmp_path, text)
    ref = find_call(file, names, near)
    assert (line_of(ref), ref.exact) == (line, False)


NO_CALLS = {
    "two and nothing to choose by": (["SGD"], None, "SGD(a)\nSGD(b)"),
    "only later ones": (["SGD"], 1, "x = 1\nSGD(a)"),
    "part of a name": (["SGD"], None, "MySGD(a)"),
    "an imported module is no variable": ([".compile"], None, "import torch\ntorch.compile(m)"),
    "named but not called": (["SGD"], None, "optimizer = SGD"),
}


@pytest.mark.parametrize(("names", "near", "text"), NO_CALLS.values(), ids=NO_CALLS)
def test_an_uncertain_call_is_none(tmp_path, names, near, text):
    file, _ = write(tmp_path, text)
    assert find_call(file, names, near) is None
