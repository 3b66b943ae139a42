"""The KV cache: a pool of blocks, branches over it, and a transformers cache on top."""
