"""llama.cpp: a GGUF file run as it is, by the package xllamacpp in this process."""
