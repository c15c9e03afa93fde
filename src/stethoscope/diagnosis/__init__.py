"""From symptoms to ranked diagnoses: is it learning, what explains it, where was it written."""
