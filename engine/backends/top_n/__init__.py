"""Engines that read token ids and tell the N likeliest tokens behind them, no more."""
