"""Models: embedders, rerankers, keyword vectors, tokens, chat. Local ones run in threads."""

import os

# ONNX Runtime (seen in 1.31) writes a device id into the home folder and sends telemetry as soon as it is imported.
# That is off unless the variable is set to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
