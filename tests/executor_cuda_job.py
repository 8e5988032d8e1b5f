"""A training job on a real GPU by CUDA's own driver interface: its model is many numbers, each advanced every step.

``python executor_cuda_job.py WITNESS SECONDS_PER_STEP``: each lease writes down which GPUs it saw.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import uuid
from array import array

from executor_job import PRIME

from hetopt.executor import lease

NUMBERS = 1 << 16
PTX = f"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry advance(.param .u64 model, .param .u32 length)
{{
  .reg .pred %beyond;
  .reg .b32 %block, %width, %thread, %i, %length;
  .reg .b64 %at, %offset, %value;
  mov.u32 %block, %ctaid.x;
  mov.u32 %width, %ntid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %i, %block, %width, %thread;
  ld.param.u32 %length, [length];
  setp.ge.u32 %beyond, %i, %length;
  @%beyond bra DONE;
  ld.param.u64 %at, [model];
  cvta.to.global.u64 %at, %at;
  mul.wide.u32 %offset, %i, 8;
  add.u64 %at, %at, %offset;
  ld.global.u64 %value, [%at];
  mul.lo.u64 %value, %value, 48271;
  add.u64 %value, %value, 11;
  rem.u64 %value, %value, {PRIME};
  st.global.u64 [%at], %value;
DONE:
  ret;
}}
"""
"""One step of :func:`executor_job.advanced`, with a separate thread for each number."""


class Cuda:
    """The model in the memory of the one GPU that is visible."""

    def __init__(self, numbers: array[int]) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.visible = count.value
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        raw = ctypes.create_string_buffer(16)
        self.call("cuDeviceGetUuid", raw, device)
        self.uuid = f"GPU-{uuid.UUID(bytes=raw.raw)}"
        self.call("cuCtxCreate_v2", ctypes.byref(context), ctypes.c_uint(0), device)
        module, self.kernel, self.memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX.encode()))
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, ctypes.c_char_p(b"advance"))
        self.bytes = ctypes.c_size_t(8 * len(numbers))
        self.length = ctypes.c_uint(len(numbers))
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), self.bytes)
        self.call("cuMemcpyHtoD_v2", self.memory, ctypes.c_char_p(numbers.tobytes()), self.bytes)

    def call(self, name: str, *words: object) -> None:
        """Call a function of the driver; an error of it is raised."""
        if code := getattr(self.library, name)(*words):
            raise RuntimeError(f"{name}: CUDA error {code}")

    def advance(self) -> None:
        """One step."""
        words = (ctypes.c_void_p * 2)(
            ctypes.cast(ctypes.byref(self.memory), ctypes.c_void_p),
            ctypes.cast(ctypes.byref(self.length), ctypes.c_void_p),
        )
        grid = [ctypes.c_uint(n) for n in ((self.length.value + 255) // 256, 1, 1, 256, 1, 1, 0)]
        self.call("cuLaunchKernel", self.kernel, *grid, None, words, None)
        self.call("cuCtxSynchronize")

    def numbers(self) -> array[int]:
        """The model as it is now."""
        raw = ctypes.create_string_buffer(self.bytes.value)
        self.call("cuMemcpyDtoH_v2", raw, self.memory, self.bytes)
        return array("Q", raw.raw)


def main(witness: str, seconds: float) -> None:
    """Train."""
    with lease() as job:
        step, numbers = job.resume_step, array("Q", range(NUMBERS))
        if job.resume_dir is not None:
            numbers = array("Q", (job.resume_dir / "model.bin").read_bytes())
        cuda = Cuda(numbers)
        line = {"from": step, "visible": cuda.visible, "uuid": cuda.uuid, "asked": os.environ["CUDA_VISIBLE_DEVICES"]}
        with open(witness, "a") as book:
            print(json.dumps(line), file=book)
        total = job.total_steps or 1
        while step < total and not job.should_stop():
            cuda.advance()
            step += 1
            time.sleep(seconds)
            job.tick(step)
        numbers = cuda.numbers()
        job.save(step, lambda folder: (folder / "model.bin").write_bytes(numbers.tobytes()))
        job.done(step >= total)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
