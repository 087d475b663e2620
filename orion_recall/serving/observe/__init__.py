"""What others see of a running worker: metrics, traces and the health port."""
