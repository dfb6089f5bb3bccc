#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that examples/json, whose tokens a grammar guides, writes only JSON, with drafts and
# without. Exits 77 if there is no device.
case ${CLS_TEST_SIZE-} in
tiny) texts=20 ;;
small) texts=500 ;;
*) texts=10000 ;;
esac
exec "${BUILD-.}/examples/json" $texts
