"""Models that run in this process: loaded once, warm, and never on the event loop."""

import os

# ONNX Runtime (seen in 1.31) writes a device id into the home folder and reports to its makers as soon as it is
# imported. A memory service does not do so unasked; who wants it sets the variable to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
