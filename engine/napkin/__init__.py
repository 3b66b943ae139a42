"""Arithmetic about models and machines that are not here: sizes, ceilings, batch."""
