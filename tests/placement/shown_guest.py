"""Prints which GPUs the program sees: how many, which of four it gets at, these found by their PCI addresses, that of
the first, and CUDA_VISIBLE_DEVICES; also of a child. `shown_guest.py NUMBER` sets that variable first."""

import multiprocessing
import os
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call

VARIABLE = "CUDA_VISIBLE_DEVICES"


def seen() -> str:
    call(driver.cuInit(0))
    there = [number for number in range(4) if int(driver.cuDeviceGet(number)[0]) == 0]
    addresses = [call(driver.cuDeviceGetPCIBusId(64, call(driver.cuDeviceGet(number)))) for number in there]
    found = [int(call(driver.cuDeviceGetByPCIBusId(address))) for address in addresses]
    first = addresses[0].split(b"\0")[0].decode()
    return f"{call(driver.cuDeviceGetCount())} {there} {found} {first} {os.environ.get(VARIABLE)}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ[VARIABLE] = sys.argv[1]
    print(seen())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(seen))
