"""The programs here train when they are imported: pytest must not look into them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = ["healthy/*", "paraphrases/*", "scaled.py"]
