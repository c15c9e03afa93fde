"""The Keras backend under test: KERAS_BACKEND=jax (the default here), torch or tensorflow."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")
