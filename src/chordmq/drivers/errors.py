"""What can go wrong between an application and the broker behind it, named by the fault.

DriverError
 +-- Unavailable       nobody answers, or the connection broke: the outcome is unknown
 +-- Refused           the broker does not do it, and would not do it later either
 +-- UnknownDriver     no driver has this address, or its library is not installed
"""


class DriverError(Exception):
    """A failure of a driver, or of the broker that it talks to."""


class Unavailable(DriverError):
    """Nobody answers, or the connection broke; whether a message is stored is unknown."""


class Refused(DriverError):
    """The broker refuses, and trying again would change nothing."""


class UnknownDriver(DriverError):
    """No driver has this address, or the library that it needs is not installed."""
