"""A fake NVML in C, for tests without GPUs."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Reads the devices at each init from $FAKE_NVML, one record a line, fields separated by "|":
#   gpu|NAME|UUID|BYTES|MIG|PLACES         MIG: 0 off, 1 on, 2 on after the next reset, - this GPU knows no such mode
#   mig|PLACE|NAME|UUID|BYTES|GI|CI|MIB    an instance of the last gpu; slices of its GPU and compute instance
#   process|UUID|PID                       a process that computes on the device
#   error|CALL|UUID or -|CODE              what functions that begin with CALL return for that device, or for none;
#                                          -30: they hang for 30 s and succeed
# and writes each call into $FAKE_NVML_LOG. Calls outside of init and shutdown fail, as those of NVIDIA's do.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define MOST 32
typedef unsigned long long large;
typedef struct device {
  char name[200], uuid[96], mig[4];
  large bytes, mib;
  unsigned places, gi, ci;
  struct device *at[MOST];
} device;
static device devices[MOST], *gpus[MOST];
static struct { char call[64], of[96]; int code; } failures[MOST];
static struct { char of[96]; unsigned pid; } processes[MOST];
static unsigned used, count, failing, opened, running;

static void read_records(void) {
  char line[512];
  unsigned place;
  FILE *in = fopen(getenv("FAKE_NVML"), "r");
  used = count = failing = running = 0;
  memset(devices, 0, sizeof devices);
  while (fgets(line, sizeof line, in)) {
    device *d = devices + used;
    if (sscanf(line, "gpu|%199[^|]|%95[^|]|%llu|%3[^|]|%u", d->name, d->uuid, &d->bytes, d->mig, &d->places) == 5)
      gpus[count++] = devices + used++;
    else if (sscanf(line, "mig|%u|%199[^|]|%95[^|]|%llu|%u|%u|%llu",
                    &place, d->name, d->uuid, &d->bytes, &d->gi, &d->ci, &d->mib) == 7)
      gpus[count - 1]->at[place] = devices + used++;
    else if (sscanf(line, "error|%63[^|]|%95[^|]|%d",
                    failures[failing].call, failures[failing].of, &failures[failing].code) == 3)
      failing++;
    else if (sscanf(line, "process|%95[^|]|%u", processes[running].of, &processes[running].pid) == 2)
      running++;
    else abort();
  }
  fclose(in);
}
static int called(const char *call, const char *of) {
  FILE *log = fopen(getenv("FAKE_NVML_LOG"), "a");
  fprintf(log, "%s\n", call);
  fclose(log);
  for (unsigned i = 0; i < failing; i++)
    if (!strncmp(call, failures[i].call, strlen(failures[i].call)) && !strcmp(of, failures[i].of))
      return failures[i].code < 0 ? (int) sleep(-failures[i].code) : failures[i].code;
  return opened || !strcmp(call, "nvmlInitWithFlags") ? 0 : 1;
}
#define ASKED(of) do { int code = called(__func__, of); if (code) return code; } while (0)
#define ABOUT(name, ...) int name(device *d, __VA_ARGS__) { ASKED(d->uuid);
#define TEXT(name, field) ABOUT(name, char *to, unsigned length) \
  if (strlen(d->field) >= length) return 7; strcpy(to, d->field); return 0; }

int nvmlInitWithFlags(unsigned flags) { read_records(); ASKED("-"); opened++; return flags ? 2 : 0; }
int nvmlShutdown(void) { ASKED("-"); opened--; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { ASKED("-"); *n = count; return 0; }
const char *nvmlErrorString(int code) { static char to[64]; sprintf(to, "the fake says %d", code); return to; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device **to) {
  if (i >= count) return 2;
  ASKED(gpus[i]->uuid);
  *to = gpus[i];
  return 0;
}
TEXT(nvmlDeviceGetName, name)
TEXT(nvmlDeviceGetUUID, uuid)
ABOUT(nvmlDeviceGetMemoryInfo, large *total_free_used)
  for (int i = 0; i < 3; i++) total_free_used[i] = d->bytes >> i; return 0; }
#ifndef BEFORE_MIG
typedef struct { unsigned pid; large bytes; unsigned gi, ci; } process;
ABOUT(nvmlDeviceGetComputeRunningProcesses_v3, unsigned *n, process *to)
  unsigned found = 0;
  for (unsigned i = 0; i < running; i++)
    if (!strcmp(processes[i].of, d->uuid) && found++ < *n) to[found - 1].pid = processes[i].pid;
  int code = found > *n ? 7 : 0;
  *n = found;
  return code;
}
ABOUT(nvmlDeviceGetMigMode, unsigned *now, unsigned *pending)
  *now = *d->mig == '1', *pending = *d->mig != '0';
  return *d->mig == '-' ? 3 : 0;
}
ABOUT(nvmlDeviceGetMaxMigDeviceCount, unsigned *n) *n = d->places; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned i, device **to) {
  if (i >= d->places || !d->at[i]) return i >= d->places ? 2 : 6;
  ASKED(d->at[i]->uuid);
  *to = d->at[i];
  return 0;
}
typedef struct { unsigned counts[6], gi, ci; large mib; } attributes;
ABOUT(nvmlDeviceGetAttributes_v2, attributes *to)
  memset(to, 255, sizeof *to);
  to->gi = d->gi, to->ci = d->ci, to->mib = d->mib;
  return 0;
}
#endif
"""


@pytest.fixture(scope="module", name="library")
def some_nvml(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folder of the fake, compiled with these flags."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler cc here, or not Linux")

    @functools.cache
    def compiled(*flags: str) -> Path:
        folder = tmp_path_factory.mktemp("nvml")
        (folder / "fake.c").write_text(SOURCE)
        command = [compiler, "-shared", "-fPIC", *flags, "-o", "libnvidia-ml.so.1", "fake.c"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return folder

    return compiled
