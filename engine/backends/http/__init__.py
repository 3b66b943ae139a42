"""Engines that run as a server somewhere: llama-server, vLLM, OpenAI-compatible completions."""
