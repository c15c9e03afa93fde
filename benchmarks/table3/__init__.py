"""The engine against Keras on the programs of DeepLocalize: figures and speed.

`make bench-engine` runs `python -m table3 --write`; see `--help` for a part of it.
"""
