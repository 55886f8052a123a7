"""Signatures of bundles in minisign's format: `digits.bundle.minisig` beside `digits.bundle`, made by anybody who holds the secret key.

Source of the format: https://jedisct1.github.io/minisign/; the library py-minisign, the extra `signatures`, reads it.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.spec.errors import fail
from toolchain.spec.files import read_limited

if TYPE_CHECKING:
    from minisign import PublicKey, Signature

VARIABLE = "TILEWRIGHT_KEYS"
SUFFIX = ".minisig"
MOST_BYTES = 1 << 14
"""Of a signature, and of a key."""


def trusted_keys() -> tuple[Path, ...]:
    """The files of public keys that the user's variable names, separated as in PATH; none: bundles need no signature."""
    return tuple(Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)


def check_signature(path: Path, data: bytes, keys: Sequence[Path]) -> None:
    """data: of the bundle at that path, all of it. keys: files of public keys, of which one is enough.

    Raises UserError E1129 where none of them has signed these bytes, or the library is not installed; E0001 for a key that cannot be read.
    """
    try:
        from minisign import Signature
    except ImportError:
        text = "signatures of bundles are to be checked, and the library that does it is missing"
        raise fail("E1129", text, hint="pip install 'tilewright[signatures]'", place=str(path)) from None
    known = [_key(key) for key in keys]
    beside = path.with_name(path.name + SUFFIX)
    if not beside.is_file():
        raise fail("E1129", f"the bundle is not signed: there is no file {beside.name} beside it", hint=f"{VARIABLE} asks for it", place=str(path))
    try:
        signature = Signature.from_bytes(read_limited(beside, MOST_BYTES, "the signature"))
    except ValueError:
        raise fail("E1129", "this is no signature in minisign's format", place=str(beside)) from None
    if not any(_verifies(key, data, signature) for key in known):
        raise fail("E1129", "the bundle was changed after it was signed, or signed with a key that is not trusted here", place=str(path))


def _key(path: Path) -> "PublicKey":
    from minisign import PublicKey

    try:
        return PublicKey.from_bytes(read_limited(path, MOST_BYTES, "the key"))
    except ValueError:
        raise fail("E1129", "this is no public key in minisign's format", hint=f"{VARIABLE} names it", place=str(path)) from None


def _verifies(key: "PublicKey", data: bytes, signature: "Signature") -> bool:
    """Whether the key has signed these bytes."""
    try:
        key.verify(data, signature)
    except ValueError:
        return False
    return True
