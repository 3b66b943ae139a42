"""Numpy array types that records hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


FloatArray = NDArray[np.float32]


HalfArray = NDArray[np.float16]


DoubleArray = NDArray[np.float64]


CutArray = NDArray[np.int8]
