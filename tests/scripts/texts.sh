#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs all texts as run.sh does, except shapes.run, groups.run and oracle.run, which other scripts
# run, in one process, which compiles, loads and proves the programs once.
# usage: texts.sh                  BUILD, CLSAMPLE, CLS_TEST_SIZE: as run.sh
here=$(dirname "$0")
for text in "$here"/*.run; do
    case $text in
    */shapes.run | */groups.run | */oracle.run) ;;
    *) set -- "$@" "$text" ;;
    esac
done
exec sh "$here/run.sh" "$@"
