"""The layers, one file a family."""
