"""Ready requests on the model: what they are, carrying them out, and where their time goes."""
