"""What of the configuration matters."""

NAMES = ("width", "hidden")
