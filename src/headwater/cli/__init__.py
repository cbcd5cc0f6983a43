"""The doors of a terminal."""


def main() -> None:
    """Run the command line."""
