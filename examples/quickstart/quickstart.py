"""The least that a Python program needs: kill it at any moment, start it again, and it goes on."""
import numpy as np

import kedge

field, step = np.zeros(1000), np.zeros((), dtype=int)
with kedge.Context("quickstart") as context:
    context.protect(0, step, "step")
    context.protect(1, field, "field")
    if context.newest("quickstart") is not None:
        context.restart("quickstart")
        print(f"continuing from step {step}")
    while step < 100:
        step += 1
        field += step * 0.5
        if step % 10 == 0:
            context.checkpoint("quickstart", int(step))
print(f"field[0] = {field[0]:g}")
