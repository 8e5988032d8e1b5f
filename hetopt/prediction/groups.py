"""What submissions of the same training share."""

from __future__ import annotations

from hashlib import blake2b

from hetopt.checks import shown
from hetopt.errors import InvalidInstance


def group_of(*meta: str) -> str:
    """Name of the group of jobs with the same meta-information, such as user, data set and command line.

    A hash of the tuple (BLAKE2b, 128 bits) [ASRPT, section IV-C3]: the same on every machine and in every run, and it
    tells apart what is divided differently or stands in another order. The odds that any two of a billion groups share
    a name are below 1 to 10^20.

    Raises
    ------
    InvalidInstance
        No meta-information, or some that is not text.

    Examples
    --------
    >>> group_of("ann", "ImageNet", "train.py --lr 0.1")
    '0f0b905cd4aa69e16a81e764f24e26f1'
    """
    if not meta:
        raise InvalidInstance("group_of() has no meta-information; it needs texts such as user, data set, command line")
    digest = blake2b(digest_size=16)
    for i, part in enumerate(meta):
        if not isinstance(part, str):
            raise InvalidInstance(f"meta[{i}] is {shown(part)}; it must be text")
        encoded = part.encode("utf-8", "surrogatepass")  # command lines may hold bytes that are no text
        digest.update(len(encoded).to_bytes(8, "big"))  # where a part ends is part of what is hashed
        digest.update(encoded)
    return digest.hexdigest()
