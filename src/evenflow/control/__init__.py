"""The one control loop: measure, model, decide, act. It begins with shedding."""
