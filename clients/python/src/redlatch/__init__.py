"""Distributed locks over Redis and Valkey: leases, fencing tokens, and notice of loss.

```python
import redlatch

client = redlatch.Client.from_url("redis://localhost")
with client.lock("nightly-report") as hold:
    write_report(fencing_token=hold.token)
```

`redlatch.aio` has the same for asyncio.
"""

from importlib.util import find_spec

if find_spec(f"{__name__}._sync") is None:
    # This is a checkout.
    from . import _derive

    _derive.install()

from . import aio
from ._hold import Hold
from ._limit import Pass, RateLimiter
from ._passes import Refusal
from ._rate import Level
from ._sync import Client, FairLock, Lock
from .errors import (
    ClientClosed,
    InvalidLease,
    InvalidName,
    InvalidOption,
    LockBusy,
    LockLost,
    OutOfRange,
    ProtocolError,
    RedlatchError,
    Refused,
    Unavailable,
    WrongKind,
)

__version__ = "0.1.0"

__all__ = [
    "Client",
    "ClientClosed",
    "FairLock",
    "Hold",
    "InvalidLease",
    "InvalidName",
    "InvalidOption",
    "Level",
    "Lock",
    "LockBusy",
    "LockLost",
    "OutOfRange",
    "Pass",
    "ProtocolError",
    "RateLimiter",
    "RedlatchError",
    "Refusal",
    "Refused",
    "Unavailable",
    "WrongKind",
    "aio",
]
