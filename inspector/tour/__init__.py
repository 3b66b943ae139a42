"""The guided tour: stops in a recorded run, each with a pane to look at and a key to press."""
