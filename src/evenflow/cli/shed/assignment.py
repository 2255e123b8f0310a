"""Numbers by name on the command line: `in1=1,in2=0.5`."""

from __future__ import annotations

from evenflow.errors import NetworkError


def assigned(option: str, text: str) -> dict[str, float]:
    """Return the numbers that a text names.

    Raises:
        NetworkError: It is not of this form, or a name stands twice.
    """
    found: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        # Names of gates have > in them, never =.
        name, equals, number = (each.strip() for each in part.partition("="))
        if not equals or not name:
            raise _wrong(option, f"{part[:40]!r} should be NAME=NUMBER")
        if name in found:
            raise _wrong(option, f"{name[:40]} stands twice")
        try:
            found[name] = float(number)
        except ValueError:
            raise _wrong(option, f"{number[:40]!r} of {name[:40]} is no number") from None
    return found


def _wrong(option: str, message: str) -> NetworkError:
    return NetworkError("option.invalid", message, (option,), "write it as in1=1,in2=0.5")
