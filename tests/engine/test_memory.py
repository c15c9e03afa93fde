"""What a network does to the memory of its process."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

STEPS = """
import json, os, resource
import numpy as np
from stethoscope.engine import network

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        held = [np.ones(1 << 21, np.uint8) for _ in range(12)]  # the arrays of a step: 24 MiB
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first, before = faults(), resident()
network._keep_memory()
touched = resident() - before
faults()  # the heap grows once more
print(json.dumps([first, faults(), touched]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep memory by other rules")
def test_what_a_step_frees_is_kept_for_the_next():
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    without, kept, touched = json.loads(done.stdout)
    pages = 12 * (1 << 21) // 4096
    assert without > pages  # of 20 steps
    assert kept < pages / 10
    assert touched < 1 << 20
