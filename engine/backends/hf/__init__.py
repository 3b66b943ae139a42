"""The backend for real models: torch and transformers over a pool of K/V blocks."""
