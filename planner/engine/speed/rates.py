"""Peak rates of a GPU, of its links and of its server, from the catalogue. What it does not know stays unknown."""

from dataclasses import dataclass

from planner.engine.term import Factor
from planner.hardware import ChosenGpu, Gpu, HardwareCatalog, Node, load_links
from planner.scenario.hardware import Hardware

TERA = 1e12
GIGA = 1e9
ON_CARDS = ("PCIe", "PCIe LP")
"""Form factors of cards that reach each other over PCI Express alone, unless somebody bridges them."""
IN_NETWORK = (9, 0)
"""First compute capability whose NVSwitch adds up in the network (third generation, NVLink SHARP)."""
TF32 = (8, 0)
"""First compute capability whose tensor cores multiply fp32 numbers rounded to TF32."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one GPU in its server, each per second."""

    products: dict[str, Factor | None]
    """FLOP of dense matrix products by number format: `16-bit`, `fp32`, `tf32`, `fp8`, `fp4`."""
    memory: Factor | None
    link: Factor | None
    """To GPUs of the same server, one way."""
    host_link: Factor | None
    network: Factor | None
    """Of a whole server, one way."""
    per_server: int
    adds_in_network: bool
    """Whether switches between the GPUs of a server add up what passes through them."""


def rates_of(chosen: ChosenGpu, hardware: Hardware, catalog: HardwareCatalog) -> Rates:
    """The rates of a whole GPU of the catalogue; of MIG slices and cards of one's own none are known."""
    node = catalog.nodes.get(hardware.node) if isinstance(hardware.node, str) else None
    network = _network(hardware, node)
    gpu = chosen.gpu
    if gpu is None or "." in chosen.variant:
        return Rates({}, None, None, None, network, hardware.gpus_per_node, False)
    mine = node if node is not None and node.gpu == gpu.id else None
    link = _link(gpu, mine)
    return Rates(
        _products(gpu),
        Factor("memory bandwidth", gpu.speed.bandwidth_gb_per_s * GIGA, f"{gpu.speed.bandwidth_gb_per_s:g} GB/s"),
        link,
        _host_link(gpu),
        network,
        hardware.gpus_per_node,
        _capability(gpu) >= IN_NETWORK and gpu.speed.nvlink_gb_per_s is not None,
    )


def _products(gpu: Gpu) -> dict[str, Factor | None]:
    speed = gpu.speed
    half = speed.peak_fp16_tflops
    tf32 = half / 2 if half is not None and _capability(gpu) >= TF32 else half
    return {
        "16-bit": _peak("16-bit peak", half, "dense"),
        "fp8": _peak("fp8 peak", speed.fp8_tflops, "dense"),
        "fp4": _peak("fp4 peak", speed.fp4_tflops, "dense"),
        "tf32": _peak("TF32 peak", tf32, "half of the 16-bit rate" if tf32 != half else NO_FASTER),
        "fp32": _peak("fp32 peak", half, NO_FASTER),
    }


NO_FASTER = "not in the catalogue; no higher than the 16-bit rate"


def _peak(name: str, tflops: float | None, how: str) -> Factor | None:
    return None if tflops is None else Factor(name, tflops * TERA, f"{tflops:g} TFLOP/s, {how}")


def _link(gpu: Gpu, node: Node | None) -> Factor | None:
    both = gpu.speed.nvlink_gb_per_s if node is None else node.nvlink_gb_per_s_per_gpu or gpu.speed.nvlink_gb_per_s
    if both is not None:
        return Factor("NVLink, one way", both / 2 * GIGA, f"{both:g} GB/s / 2")
    return _host_link(gpu) if gpu.form_factor in ON_CARDS else None


def _host_link(gpu: Gpu) -> Factor | None:
    link = None if gpu.memory.unified else load_links().get(gpu.architecture)
    if link is None or gpu.vendor != "NVIDIA" or gpu.form_factor.startswith("Superchip"):
        return None
    return Factor(f"{link.name}, one way", link.gb_per_s * GIGA, f"{link.gb_per_s:g} GB/s, no bridge")


def _network(hardware: Hardware, node: Node | None) -> Factor | None:
    gbit = hardware.network_gbit_per_s or (node.network_gbit_per_s if node is not None else None)
    return None if gbit is None else Factor("network of a server, one way", gbit / 8 * GIGA, f"{gbit:g} Gbit/s / 8")


def _capability(gpu: Gpu) -> tuple[int, int]:
    """NVIDIA's compute capability as two numbers; (0, 0) for others."""
    major, _, minor = gpu.compute_capability.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)
