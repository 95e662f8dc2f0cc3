"""What limits a program, in a word: the kind of memory, the vector units, a matmul pipe."""

from sollens.hardware.target import Target

PIPES = {
    "float64": "FP64",
    "float32": "FP32",
    "tf32": "TF32",
    "bfloat16": "BF16",
    "float16": "FP16",
    "float16_acc32": "FP16",
    "float8": "FP8",
    "float8_acc32": "FP8",
    "float6": "FP6",
    "float4": "FP4",
}
# A stack of high-bandwidth memory has a bus of 1024 bits; GDDR and LPDDR chips together have 512 at most.
_HBM_BUS_BITS = 1024


def memory_name(target: Target) -> str:
    """ "HBM" or "DRAM"."""
    bus = target.bus_width_bits
    return "DRAM" if bus is not None and bus.value < _HBM_BUS_BITS else "HBM"


def limit_name(limit: str, memory: str) -> str:
    """A limit in a word: "memory" is the kind of memory, "matmul:tf32" is TF32."""
    if limit == "memory":
        return memory
    kind, _, pipe = limit.partition(":")
    return PIPES.get(pipe, pipe.upper()) if kind == "matmul" and pipe else limit
