"""Where answers go, and how they are told apart."""
