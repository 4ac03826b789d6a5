"""What the tests share: engines, clocks, scripted models and conversations. The fakes are the clock and the model only."""
