"""What can be wrong with a source of changes, named by the fault.

CdcError
 +-- InvalidSource        the configuration says something that cannot be
 +-- SourceUnavailable    the database does not answer: the same attempt may succeed later
 +-- SourceRefused        the database does not let us: somebody has to change something
 +-- PositionLost         the database no longer has what comes after the stored position
 +-- Malformed            the database sent something that its protocol does not allow
"""


class CdcError(Exception):
    """A failure of change data capture."""


class InvalidSource(CdcError):
    """The configuration says something that cannot be."""


class SourceUnavailable(CdcError):
    """The database does not answer; the same attempt may succeed later."""


class SourceRefused(CdcError):
    """The database does not let us; somebody has to change something there or in the settings."""


class PositionLost(CdcError):
    """The database no longer has the changes that follow the stored position."""


class Malformed(CdcError):
    """The database sent something that its protocol does not allow."""
