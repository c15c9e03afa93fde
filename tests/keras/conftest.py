"""The Keras backend under test: KERAS_BACKEND=jax (the default here), torch or tensorflow."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
# Compiling is most of what these tests cost. Bare and watched runs are compiled alike.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
