#!/bin/sh
# SPDX-License-Identifier: MIT
# The library asks of a system what C11's library has, of OpenCL what 1.2 has, of
# POSIX (or Windows) a lock and a clock, and nothing else; and of C11 nothing that prints,
# exits, or reads the environment: every name that libclsample.a leaves to others
# is in a table here.
lib=.libs/libclsample.a
if [ ! -f "$lib" ]; then
    echo "no static library here"
    exit 77
fi

c11='
    calloc free malloc realloc qsort bsearch strtol strtoul strtoull strtod
    memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strrchr strstr
    snprintf vsnprintf sscanf vsscanf
    fopen fclose fgetc fread fwrite fflush ferror feof fseek ftell remove rename
    ceil exp exp2 fabs floor fma fmax fmin frexp ldexp log log2 pow rint round sqrt trunc
    ceilf exp2f expf fabsf floorf fmaf fmaxf fminf ldexpf log2f logf powf rintf sqrtf truncf
    clock time timespec_get'
# C11's threads.h is missing on macOS and in older C libraries.
posix='
    pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock'
windows='
    AcquireSRWLockExclusive InitializeSRWLock ReleaseSRWLockExclusive
    QueryPerformanceCounter QueryPerformanceFrequency'
opencl='
    clBuildProgram clCreateBuffer clCreateCommandQueue clCreateContext clCreateKernel clCreateProgramWithBinary
    clCreateProgramWithSource clCreateSubBuffer clEnqueueBarrierWithWaitList clEnqueueCopyBuffer clEnqueueFillBuffer
    clEnqueueMapBuffer clEnqueueMarkerWithWaitList clEnqueueNDRangeKernel clEnqueueReadBuffer clEnqueueUnmapMemObject
    clEnqueueWriteBuffer clFinish clFlush clGetCommandQueueInfo clGetContextInfo clGetDeviceIDs clGetDeviceInfo
    clGetEventInfo clGetKernelInfo clGetKernelWorkGroupInfo clGetMemObjectInfo clGetPlatformIDs clGetPlatformInfo
    clGetProgramBuildInfo clGetProgramInfo clReleaseCommandQueue clReleaseContext clReleaseEvent clReleaseKernel
    clReleaseMemObject clReleaseProgram clRetainCommandQueue clRetainContext clRetainEvent clRetainKernel
    clRetainMemObject clRetainProgram clSetEventCallback clSetKernelArg clWaitForEvents'

# What compilers and C libraries call these by, and what compilers call by
# themselves: thread-local storage, division on 32 bits, stacks, sanitizers.
theirs='^(_GLOBAL_OFFSET_TABLE_|_tls_index|__isoc(99|23)_.*|__mingw_.*|__.*_chk|__stack_chk_.*|__errno_location'
theirs=$theirs'|__tls_get_addr|__emutls_.*|___chkstk_ms|__aeabi_.*|__aarch64_.*|__(u?div|u?mod)[dt]i[34]'
theirs=$theirs'|__(asan|ubsan|tsan|msan|sanitizer)_.*|__gcov_.*|__llvm_.*)$'

# nm's letter tells what is defined from what is undefined; macOS puts an
# underscore before C names.
table=$(${NM:-nm} -gP "$lib")
case $table in *SRWLock*) system=$windows ;; *) system=$posix ;; esac
case $table in *_cls_fail*) underscore=_ ;; *) underscore= ;; esac
names=$(echo "$table" | awk -v underscore="$underscore" '
    NF < 2 { next }
    { sub("^" underscore, "", $1); sub(/^__imp_/, "", $1) }
    $2 == "U" { wanted[$1]; next }
    { defined[$1] }
    END { for (name in wanted) if (!(name in defined)) print name }' | sort)
foreign=$(for name in $names; do
    case $name in CLBlast*) continue ;; esac
    # shellcheck disable=SC2086 # lists of words
    printf '%s\n' $c11 $system $opencl | grep -qx "$name" || printf '%s\n' "$name" | grep -Ev "$theirs"
done)
if [ -z "$names" ] || [ -n "$foreign" ]; then
    echo "neither C11's (without what prints, exits or reads the environment), nor OpenCL 1.2's, nor a lock's:"
    echo "${foreign:-$lib has no names}"
    echo "0 passed, 1 failed"
    exit 1
fi
echo "$(echo "$names" | wc -l) names from outside, all C11's, OpenCL 1.2's or a lock's"
echo "1 passed, 0 failed"
