"""The immutable records that flow from the engine to everything else; they import nothing of ours.

Whatever a pane, a file or a test knows about a run it knows from these. They hold numpy arrays and
plain values only, so that a process which never imports torch can read them. Records compare by
identity (``eq=False``): arrays have no single truth value, and screens compare old with new.

Units: times are milliseconds, sizes are bytes, entropies and log-probabilities are in nats.
"""
