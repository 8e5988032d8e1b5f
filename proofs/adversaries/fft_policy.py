"""Plans of the library's FFT policy in floats, over several rounds, compared with all plans."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hetopt.data.instance import Instance
from hetopt.decisions.system import ROUND_SECONDS
from hetopt.models.fft import FFT
from hetopt.proofs.adversaries.fft_rounds import WAITS, Gang, Plan, Round
