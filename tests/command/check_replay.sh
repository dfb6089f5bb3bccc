#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves that the calls on a sampler, which the library writes as a text (options->record), are
# those that were made: texts are recorded on the host and on a device, in several ways, and what
# was recorded gives the same tokens on the host. CLSAMPLE is the command's path. Without a device
# it uses the host alone.
# shellcheck source=tests/command/command.sh
. "$(dirname "$0")/command.sh"
texts=$here/../scripts

# shellcheck disable=SC2317 # check calls it
run() { "$clsample" run "$@"; }

# Records a text of tests/scripts, which makes a text for each of its samplers, and replays them.
replays() { # NAME OPTION...: the options of the recording run
    name=$1
    shift
    title="$name $*"
    check "$title: recording" run "$texts/$name.run" --record "$name.run" "$@"
    replayed=0
    for one in "$name".run "$name"-*.run; do
        [ -f "$one" ] || continue
        is "$title: $one: its last line" "$(tail -n 1 "$one")" end
        check "$title: $one" run "$one"
        replayed=$((replayed + $(grep -c '^\(step\|verify\|draft\).* -> ' "$one")))
    done
    [ $replayed -gt 3 ] || no_ "$title: $replayed calls with tokens are in the texts"
    rm -f "$name".run "$name"-*
}

for text in usual steps verify slots drafts accept saved grammar budgets masks forced watermark \
    phases adjust; do
    replays $text
done
# Rows with other strides, and drafts in other places.
for text in verify drafts masks adjust; do
    replays $text --sides host-permuted
done
for device in $devices; do
    [ "$device" != host ] || continue
    for text in usual slots accept; do
        replays $text --device 0 --sides ahead --max-work-group 1
    done
    for text in verify masks; do
        replays $text --device 0 --sides permuted --max-work-group 1
    done
done

# A recorded text whose tokens are others differs, and says why.
cat >two.run <<'END'
sampler vocab=60 slots=2 max_history=8
begin 0 seed=7
begin 1 seed=1004
logits random seed=3 kind=language
step
step
END
check "two requests" run two.run --record calls.run
sed -n 's/^\(step .*\) -> \([0-9]*\), \([0-9]*\)$/\1 -> \3, \3/;p' calls.run >wrong.run
exits 1 "other tokens" run wrong.run
says "other tokens" 'row 1 draws it' out
sed '$d' calls.run >cut.run
exits 2 "a text that is cut" run cut.run
says "a text that is cut" 'its last line is not "end"' err
case $devices in *device*)
    exits 2 "shards" run two.run --sides shards-2 --device 0 --record x.run
    says "shards" '--record: the calls of shards are not written' err ;;
esac
exits 2 "a folder that is not there" run two.run --record no/x.run
says "a folder that is not there" 'no/x.run: cannot be written' err

# Hashes: of a verification, and of fewer mask rows than rows.
cat >hashed.run <<'END'
sampler vocab=9 slots=2 rows=3
begin 0-1
verify drafts=1,0 ids=3 logits=random:5 mask=list:511 mask_rows=1 mask_map=0,0,0 hash=1,2,3 -> 1, 2
END
exits 1 "hashes" run hashed.run
says "hashes" 'row 0: the logits, the mask or the bias have changed' out

# Floats have a point in every locale.
if locale -a 2>/dev/null | grep -q '^de_DE'; then
    LC_ALL=de_DE.UTF-8 run two.run --record point.run >out 2>&1
    is "a comma" "$(grep -c '[0-9],[0-9]* ' point.run)" 0
fi

# What the runner reads for it.
printf 'sampler vocab=9 slots=2\nbegin 0-1\nstep random_bits=%s\n' \
    list:0,18446744073709551615 >bits.run
check "random bits" run bits.run
for bits in list:0 list:0,x list:-1,2 list:0,18446744073709551616; do
    sed "s/list:.*/$bits/" bits.run >bad.run
    exits 2 "random_bits=$bits" run bad.run
    says "random_bits=$bits" 'is no number of 64 bits for the next row' err
done
printf 'sampler vocab=9 slots=1\nload 0 file=bits.run\n' >bad.run
exits 1 "a file that is no slot" run bad.run
says "a file that is no slot" 'is refused' out
printf 'sampler vocab=9 slots=1\ngrammar g file=short.clsg\n' >bad.run
printf CLSG >short.clsg
exits 2 "a grammar that is cut" run bad.run
says "a grammar that is cut" 'short.clsg: ' err
finish
