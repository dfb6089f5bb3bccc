# SPDX-License-Identifier: MIT
"""clsample draws the next token of a language model on the device that computed the logits.

    import clsample
    with clsample.Context() as context, context.sampler(vocab=1000, max_rows=2) as sampler:
        requests = [sampler.begin(temperature=0.8, top_k=50, seed=seed) for seed in (1, 2)]
        step = sampler.sample(logits, requests)     # never waits; logits [2, 1000]
        print(step.tokens.get())                    # waits

Context opens a device, Sampler has the memory of steps, and Request the state of a request.
clsample.sample(logits, ...) does without them where there are no penalties and no other history.
Context("host") is the host: the same calls and the same tokens without a device. Params converts
the parameters of other systems, clsample.transformers samples in Transformers' generate(), and
clsample.tinygrad where tinygrad has computed the logits. Logits come from pyopencl's arrays and
buffers, from this package's DeviceArray, or from NumPy, torch and others on the host; results stay
on the device until get().
"""

from ._arrays import DeviceArray, HostArray
from ._context import Context, TestedStage
from ._errors import (
    BadArgument,
    BuildFailed,
    Busy,
    Error,
    LibraryError,
    MPIError,
    OpenCLError,
    OpenCLNotFound,
    OutOfMemory,
    SelfTestFailed,
    UnsupportedDevice,
)
from ._grammar import Grammar
from ._library import library_version
from ._opencl import Device, Event, Queue, devices
from ._params import Params, chain_stages
from ._request import Request, SavedRequest
from ._results import Drafts, Logprobs, Result, Statuses, Step, Verified
from ._rows import clear, draw, kept_offsets, sample
from ._sampler import Sampler
from ._types import (
    FEATURES_ALL,
    GRAMMAR_DEAD,
    GRAMMAR_ENDED,
    Candidates,
    Chain,
    DeviceInfo,
    DraftKind,
    DType,
    Feature,
    GivenTokens,
    GrammarInfo,
    Counts,
    LogprobKind,
    Memory,
    Origin,
    Outputs,
    PenaltyScope,
    ProgramInfo,
    RowStatus,
    Stage,
    Status,
    Subgroups,
    Tier,
    TopTokens,
    VerifyMethod,
)
from ._types import VERSION as __version__

__all__ = [
    "BadArgument",
    "BuildFailed",
    "Busy",
    "Candidates",
    "Chain",
    "Context",
    "DType",
    "Device",
    "DeviceArray",
    "DeviceInfo",
    "DraftKind",
    "Drafts",
    "Error",
    "Event",
    "FEATURES_ALL",
    "Feature",
    "GRAMMAR_DEAD",
    "GRAMMAR_ENDED",
    "GivenTokens",
    "Grammar",
    "GrammarInfo",
    "HostArray",
    "Counts",
    "LibraryError",
    "LogprobKind",
    "Logprobs",
    "MPIError",
    "Memory",
    "OpenCLError",
    "OpenCLNotFound",
    "Origin",
    "OutOfMemory",
    "Outputs",
    "Params",
    "PenaltyScope",
    "ProgramInfo",
    "Queue",
    "Request",
    "Result",
    "RowStatus",
    "Sampler",
    "SavedRequest",
    "SelfTestFailed",
    "Stage",
    "Status",
    "Statuses",
    "Step",
    "Subgroups",
    "TestedStage",
    "Tier",
    "TopTokens",
    "UnsupportedDevice",
    "Verified",
    "VerifyMethod",
    "__version__",
    "chain_stages",
    "clear",
    "devices",
    "draw",
    "kept_offsets",
    "library_version",
    "sample",
]
