#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the libraries call nothing but C11's library, a lock, threads and a clock of POSIX or
# Windows, what asks whether a path is a folder, what opens a file of POSIX without waiting for a
# pipe, and what finds OpenCL's functions, of which they link none; and nothing of C11 that prints,
# exits or reads the environment: every undefined name of libclsample.a and libclsample-head.a is in
# a table here. libclsample-head.a also uses libclsample.a's names and CLBlast's, and libclsample-
# mpi.a uses those and MPI's, where it was built.
core=.libs/libclsample.a head=.libs/libclsample-head.a mpi=.libs/libclsample-mpi.a
if [ ! -f "$core" ] || [ ! -f "$head" ]; then
    echo "no static libraries here"
    exit 77
fi

c11='
    calloc free malloc realloc qsort bsearch strtol strtoul strtoull strtod
    memchr memcmp memcpy memmove memset strchr strcmp strcspn strlen strncmp strrchr strstr
    snprintf vsnprintf sscanf vsscanf
    fopen fclose fgetc fread fwrite fflush ferror feof fseek ftell remove rename
    ceil exp exp2 fabs floor fma fmax fmin frexp ldexp log log2 pow rint round sqrt trunc
    ceilf exp2f expf fabsf floorf fmaf fmaxf fminf ldexpf log2f logf powf rintf sqrtf truncf'
# C11's threads.h is missing on macOS and in older C libraries. lib/programs/cache.c opens files.
posix='
    clock_gettime pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock
    pthread_create pthread_join sysconf getpid
    close fdopen fopen64 fstat fstat64 __fxstat __fxstat64 open open64 dlopen dlsym
    access stat stat64 __xstat __xstat64'
windows='
    AcquireSRWLockExclusive InitializeSRWLock ReleaseSRWLockExclusive
    CloseHandle CreateThread GetSystemInfo WaitForSingleObject
    GetProcAddress LoadLibraryA stat _stat64 _stat64i32
    QueryPerformanceCounter QueryPerformanceFrequency'

# What compilers and C libraries call these by, and what compilers call by
# themselves: thread-local storage, division on 32 bits, stacks, sanitizers.
theirs='^(_GLOBAL_OFFSET_TABLE_|_tls_index|__isoc(99|23)_.*|__mingw_.*|__.*_chk|__stack_chk_.*'
theirs=$theirs'|__errno_location|bcmp|__tls_get_addr|__emutls_.*|___chkstk_ms|__aeabi_.*'
theirs=$theirs'|__aarch64_.*|__(u?div|u?mod)[dt]i[34]'
theirs=$theirs'|__(asan|ubsan|tsan|msan|sanitizer)_.*|__gcov_.*|__llvm_.*)$'

# nm's letter tells what is defined from what is undefined; macOS puts an
# underscore before C names.
table=$(${NM:-nm} -gP "$core")
case $table in *SRWLock*) system=$windows ;; *) system=$posix ;; esac
case $table in *_cls_fail*) underscore=_ ;; *) underscore= ;; esac

names_of() { # LIBRARY: its global names, each after "wanted" or "defined"
    ${NM:-nm} -gP "$1" | awk -v underscore="$underscore" '
        NF < 2 { next }
        { sub("^" underscore, "", $1); sub(/^__imp_/, "", $1) }
        { print $2 == "U" ? "wanted" : "defined", $1 }'
}

check() { # LIBRARY PATTERN: what it leaves to others is in a table, or matches
    names=$(names_of "$1" | awk '
        { is[$1, $2]; all[$2] }
        END { for (name in all)
            if (("wanted", name) in is && !(("defined", name) in is)) print name }' | sort)
    foreign=$(for name in $names; do
        # shellcheck disable=SC2086 # lists of words
        printf '%s\n' $c11 $system | grep -qx "$name" ||
            printf '%s\n' "$name" | grep -Ev "$theirs|$2"
    done)
    if [ -z "$names" ] || [ -n "$foreign" ]; then
        echo "$1: neither C11's (without what prints, exits or reads the environment)," \
            "nor a lock's or threads', nor what finds OpenCL:"
        echo "${foreign:-it has no names}"
        failed=$((failed + 1))
    else
        echo "$1: $(echo "$names" | wc -l) names from outside, all allowed"
        passed=$((passed + 1))
    fi
}

passed=0 failed=0
check "$core" '^$'
ours=$(names_of "$core" | sed -n 's/^defined \(cls_\)/\1/p' | paste -sd '|' -)
check "$head" "^(CLBlast[A-Za-z]*|$ours)\$"
[ ! -f "$mpi" ] || check "$mpi" "^(MPI_[A-Za-z_]*|ompi_[a-z0-9_]*|nanosleep|Sleep|$ours)\$"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
