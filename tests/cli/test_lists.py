import json


def test_gpus_are_found_by_words_and_vendor(command):
    assert "h100-sxm5-80gb" in command("gpus", "h100 sxm").out
    assert "mi300x" in command("gpus", "--vendor", "amd").out
    assert "h100" not in command("gpus", "--vendor", "AMD").out


def test_the_three_capacities_of_a_gpu_are_three_numbers(command):
    (gpu,) = [gpu for gpu in json.loads(command("gpus", "h100", "--json").out) if gpu["id"] == "h100-sxm5-80gb"]
    assert gpu["marketing_bytes"] == 80 * 1024**3
    assert gpu["driver_bytes"] == 81559 * 1024**2  # nvidia-smi
    assert gpu["usable_bytes"] < gpu["driver_bytes"]
    assert gpu["sources"]


def test_a_search_without_result_says_so(command):
    outcome = command("gpus", "frobnicator 9000")
    assert (outcome.status, outcome.out) == (0, "No GPU of the catalogue matches.\n")
    assert command("models", "frobnicator 9000").out == "No model preset matches.\n"
    assert json.loads(command("models", "frobnicator 9000", "--json").out) == []


def test_models_are_found_by_words(command):
    presets = json.loads(command("models", "llama 3.1 8b", "--json").out)
    assert [(preset["id"], preset["parameters"]) for preset in presets] == [("meta-llama/Llama-3.1-8B", 8030261248)]
    assert "meta-llama/Llama-3.1-8B" in command("models", "llama").out


def test_servers_are_found_by_words_and_provider_with_their_ram(command):
    (node,) = json.loads(command("nodes", "dgx h100", "--json").out)
    assert (node["gpu"], node["gpu_count"]) == ("h100-sxm5-80gb", 8)
    assert node["host_ram_bytes"] >= 2 * 10**12  # NVIDIA DGX H100 data sheet: 2 TB
    assert node["sources"]
    listed = command("nodes", "--provider", "aws").out
    assert "p5.48xlarge" in listed
    assert "DGX" not in listed
    assert command("nodes", "frobnicator 9000").out == "No server of the catalogue matches.\n"
