"""An application that takes one checkpoint, waits for the store, and then ends in good order (--end) or dies (--die)."""

import os
import signal
import sys

import numpy as np

from kedge import Context, Level

data = np.zeros(1000)
context = Context("paced")
context.protect(0, data)
newest = context.newest("sim")
if newest is not None:
    context.restart("sim")
version = (newest or 0) + 1
context.checkpoint("sim", version)
context.wait("sim", version, Level.STORE)
if "--die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
context.close()
