"""Diffusion models as the diffusers library builds them: UNets, transformers, autoencoders and whole pipelines."""
