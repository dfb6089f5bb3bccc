#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that each shared library exports exactly the names that its headers declare. libclsample
# also exports what lib/private.h and lib/base/opencl.h declare, in a separate version node where
# the linker has nodes.
failed=0 passed=0

# Names that the lines which begin with MACRO declare; the name may be on the line below.
declared_by() { # MACRO HEADER...
    macro=$1
    shift
    cat "$@" | awk -v macro="$macro" '
        index($0, macro) == 1 { open = 1 }
        open && match($0, /cls_[a-z0-9_]*\(/) {
            print substr($0, RSTART, RLENGTH - 1)
            open = 0
        }' | sort
}

# The library's names, with "@VERSION" where nm prints it. nm's letter tells code and data from
# what is undefined or absolute (the version node itself); macOS puts an underscore before C names.
exported_by() { # LIBRARY
    case $1 in
    *.so) dynamic=-D ;;
    *) dynamic= ;;
    esac
    # shellcheck disable=SC2086 # perhaps no option
    ${NM:-nm} -gP $dynamic "$1" |
        awk '$2 ~ /^[TDBRVW]$/ { sub(/@@/, "@", $1); sub(/^_cls/, "cls", $1); print $1 }' | sort
}

verdict() { # WHAT WANTED IS
    if [ -n "$2" ] && [ "$2" = "$3" ]; then
        echo "$(echo "$2" | wc -l) names, in the header and in $1"
        passed=$((passed + 1))
    else
        echo "in the header:"; echo "$2"
        echo "in $1:"; echo "$3"
        failed=$((failed + 1))
    fi
}

private=$(declared_by CLS_API "$srcdir/lib/private.h" "$srcdir/lib/base/opencl.h")
for name in clsample clsample-head ${MPI_CFLAGS:+clsample-mpi}; do
    lib=$(ls .libs/lib$name.so .libs/lib$name.dylib .libs/lib$name.dll.a 2>/dev/null | head -n 1)
    if [ -z "$lib" ]; then
        echo "no shared library lib$name here"
        exit 77
    fi
    exported=$(exported_by "$lib")
    case $name in
    clsample)
        wanted=$(declared_by CLS_API "$srcdir"/include/clsample.h "$srcdir"/include/clsample/*.h)
        verdict "$lib" "$(printf '%s\n' "$wanted" "$private" | sort)" \
            "$(echo "$exported" | sed 's/@.*//')"
        case $exported in
        *@*) verdict "$lib's private node" "$private" \
            "$(echo "$exported" | sed -n 's/@CLSAMPLE_PRIVATE$//p')" ;;
        esac
        ;;
    clsample-head)
        wanted=$(declared_by CLS_HEAD_API "$srcdir/include/clsample/head.h")
        verdict "$lib" "$wanted" "$(echo "$exported" | sed 's/@.*//')"
        ;;
    clsample-mpi)
        wanted=$(declared_by CLS_MPI_API "$srcdir/include/clsample-mpi.h")
        verdict "$lib" "$wanted" "$(echo "$exported" | sed 's/@.*//')"
        ;;
    esac
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
