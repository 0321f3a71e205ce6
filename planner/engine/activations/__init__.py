"""What a step keeps in memory, tensor by tensor.

A model's forward pass is written down once per implementation, in terms of symbolic tensors (`tape`, `ops`,
`blocks`). Running it replays the framework's own order of allocation and release, forward and backward
(`autograd`), without a number in it; `trace` turns the recording into terms, which any workload then fills in.
"""
