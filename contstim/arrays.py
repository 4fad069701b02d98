"""Names for the arrays that results come in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
#: Ids of the tokens of whole texts, of which there are many.
TokenArray = NDArray[np.int32]
#: Numbers of any type.
AnyArray = NDArray[Any]
