"""What can be wrong with an encrypted record or with the keys for it."""


class EncryptionError(Exception):
    """A record that cannot be encrypted or decrypted."""


class InvalidKeys(EncryptionError):
    """The keys cannot be read, or are not keys."""


class UnknownKey(EncryptionError):
    """The record was encrypted with a key that is not among ours."""


class Tampered(EncryptionError):
    """The record is not the one that was encrypted: value, key, headers or topic are others."""


class NotEncrypted(EncryptionError):
    """The record is plain, and only encrypted ones are accepted."""
