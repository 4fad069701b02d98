import sys
from pathlib import Path

# Lets the tests share the plain models in tests/tables.py.
sys.path.insert(0, str(Path(__file__).parent))
