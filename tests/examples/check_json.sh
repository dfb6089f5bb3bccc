#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/json: texts that a grammar guides are JSON, with drafts and without.
# Exits 77 without a device.
case ${CLS_TEST_SIZE-} in
tiny) texts=20 ;;
small) texts=500 ;;
*) texts=10000 ;;
esac
exec "${BUILD-.}/examples/json" $texts
