# SPDX-License-Identifier: MIT
"""The exceptions, one for each status of the library."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Type

from ._types import Status


HOST = (
    "clsample.Context('host') needs no device: there a row of 128,256 logits takes 0.05 to 2.5 ms"
)


class Error(Exception):
    """A call of the library failed. The text is the library's sentence, which names the argument.

    status: the Status. opencl: OpenCL's error code if OpenCL was the cause, otherwise 0.
    """

    status: Status = Status.OK

    def __init__(self, message: str, opencl: int = 0) -> None:
        super().__init__(message)
        self.opencl = opencl

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.opencl)


class BadArgument(Error, ValueError):
    """The message names the argument."""

    status = Status.BAD_ARGUMENT


class OutOfMemory(Error, MemoryError):
    """The host has no memory; for the device's see OpenCLError."""

    status = Status.OUT_OF_MEMORY


class Busy(Error):
    """Too many steps are in flight. Wait for an earlier one, and call again."""

    status = Status.BUSY


class UnsupportedDevice(Error):
    """The message says what the device lacks."""

    status = Status.UNSUPPORTED_DEVICE


class BuildFailed(Error):
    """The kernels did not compile. log: what the compiler said."""

    status = Status.BUILD_FAILED
    log: str = ""


class SelfTestFailed(Error):
    """The device computes other results than the host. stages: of Context.selftest(), all of its
    list."""

    status = Status.SELF_TEST_FAILED
    stages: Sequence[Any] = ()


class OpenCLError(Error):
    """An OpenCL call failed; `opencl` has its code."""

    status = Status.OPENCL_ERROR


class MPIError(Error):
    """MPI failed; only libclsample-mpi returns it."""

    status = Status.MPI_ERROR


class InUse(Error, RuntimeError):
    """Another thread, or the call whose callback this is, uses the sampler."""

    status = Status.IN_USE


class NotCompiled(Error, ValueError):
    """The sampler was not created for a feature or a type, or the library was built without it."""

    status = Status.NOT_COMPILED


class Lost(Error, RuntimeError):
    """A step failed in the middle. Close the sampler; another one can load saved requests, or begin
    them with the tokens that were read."""

    status = Status.LOST


class OpenCLNotFound(Error, ImportError):
    """pyopencl cannot be imported. Context("host") does without it."""


class LibraryError(ImportError):
    """The library libclsample cannot be opened, or is older than this package."""


def without(extra: str, error: ImportError) -> ImportError:
    """For a module of this package that needs the packages of an extra."""
    return type(error)(
        f"clsample.{extra} needs packages that pip install 'clsample[{extra}]' brings: {error}",
        name=error.name,
    )


BY_STATUS: Dict[int, Type[Error]] = {
    kind.status: kind for kind in Error.__subclasses__() if kind.status != Status.OK
}
