"""CPU emulators of what tilegen emits, so that generated kernels are tested without a GPU."""
