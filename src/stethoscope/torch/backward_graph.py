"""Which tensors a loss was computed from, as autograd's graph tells it.

A node is told apart by its sequence number: a thread numbers its nodes as it makes them, so what a
node was computed from has smaller numbers. That bounds a walk, and a number keeps nothing alive.
"""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

MAX_NODES = 4096  # between a loss call and `backward`; real programs have a handful


def made_by(tensor: Tensor) -> int | None:
    """Number of the node that made `tensor`; None when no gradient flows through it."""
    with torch._C.DisableTorchFunction():
        node = tensor.grad_fn
    return None if node is None else int(node._sequence_nr())


def upstream(tensor: Tensor, wanted: Set[int]) -> Set[int]:
    """Those of the nodes `wanted` that `tensor` was computed from, nearest first on each path.

    All of them where the graph is too large to be walked.
    """
    with torch._C.DisableTorchFunction():
        node = tensor.grad_fn
    if node is None or not wanted:
        return set()
    oldest, newest = min(wanted), int(node._sequence_nr())
    queue, seen, found = [node], set[int](), set[int]()
    while queue:
        node = queue.pop()
        number = int(node._sequence_nr())
        # Leaves have the largest number there is.
        if number < oldest or number > newest or number in seen:
            continue
        if len(seen) >= MAX_NODES:
            return wanted
        seen.add(number)
        if number in wanted:
            found.add(number)
        else:
            queue += [parent for parent, _ in node.next_functions if parent is not None]
    return found
