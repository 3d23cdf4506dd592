#!/bin/sh
# Measure everything, a turn of at most a minute and a half after the other; stop and start at will.
# TURN is a command before each turn, as one that waits for the machine to be free.
cd "$(dirname "$0")/../.." || exit 1
while :; do
  $TURN "${PYTHON:-python}" -m results.testbed run "$@" && exit 0
  [ $? -eq 3 ] || exit 1
done
