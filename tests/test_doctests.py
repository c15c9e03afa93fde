"""The examples in the docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import stethoscope

SCRIPTS = ("stethoscope.__main__", "stethoscope.demo.broken", "stethoscope.demo.fixed")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(stethoscope.__path__, "stethoscope.")
    if module.name not in SCRIPTS
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), verbose=False).failed == 0


def test_there_are_examples():
    found = [doctest.testmod(importlib.import_module(name)).attempted for name in MODULES]
    assert sum(found) >= 10
