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

from . import _types
from ._arrays import DeviceArray as DeviceArray, HostArray as HostArray
from ._context import Context as Context, TestedStage as TestedStage
from ._errors import (
    BadArgument as BadArgument,
    BuildFailed as BuildFailed,
    Busy as Busy,
    Error as Error,
    InUse as InUse,
    LibraryError as LibraryError,
    Lost as Lost,
    MPIError as MPIError,
    NotCompiled as NotCompiled,
    OpenCLError as OpenCLError,
    OpenCLNotFound as OpenCLNotFound,
    OutOfMemory as OutOfMemory,
    SelfTestFailed as SelfTestFailed,
    UnsupportedDevice as UnsupportedDevice,
)
from ._grammar import Grammar as Grammar
from ._grammar import vocabulary_digest as vocabulary_digest
from ._library import arithmetic_version as arithmetic_version
from ._library import library_version as library_version
from ._opencl import Device as Device, Event as Event, Queue as Queue, devices as devices
from ._params import Params as Params, chain_stages as chain_stages
from ._request import Request as Request, SavedRequest as SavedRequest
from ._results import (
    Drafts as Drafts,
    Logprobs as Logprobs,
    Result as Result,
    Statuses as Statuses,
    Step as Step,
    Verified as Verified,
)
from ._rows import (
    Watermark as Watermark,
    clear as clear,
    draw as draw,
    sample as sample,
    watermark_detect as watermark_detect,
)
from ._sampler import Sampler as Sampler
from ._types import (
    FEATURES_ALL as FEATURES_ALL,
    FEATURES_KNOWN as FEATURES_KNOWN,
    GRAMMAR_DEAD as GRAMMAR_DEAD,
    GRAMMAR_ENDED as GRAMMAR_ENDED,
    Candidates as Candidates,
    Chain as Chain,
    DeviceInfo as DeviceInfo,
    DraftKind as DraftKind,
    DType as DType,
    Feature as Feature,
    GivenTokens as GivenTokens,
    GrammarInfo as GrammarInfo,
    Counts as Counts,
    LogprobKind as LogprobKind,
    Memory as Memory,
    Origin as Origin,
    Outputs as Outputs,
    PenaltyScope as PenaltyScope,
    ProgramInfo as ProgramInfo,
    RowStatus as RowStatus,
    Stage as Stage,
    Status as Status,
    Subgroups as Subgroups,
    Tier as Tier,
    TopTokens as TopTokens,
    VerifyMethod as VerifyMethod,
)

__version__ = _types.VERSION
__all__ = [name for name in dir() if not name.startswith("_")] + ["__version__"]
