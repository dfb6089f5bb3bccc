#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the version that the header HEADER defines.   usage: version.sh HEADER
sed -n 's/^#define CLS_VERSION_STRING "\([^"]*\)".*/\1/p' "$1"
