#!/bin/bash
# T43: where a pack of a store is gone, cut or changed, verify names it and the files that cannot be had any more; fetch
# fails naming it and leaves the target as it was.
# size: quick
. "$ROOT/tests/scenario/lib.sh"

make_tree one 1
make_tree two 2
"$LARDER" keygen key >keygen.log
check "publish" "$LARDER" publish one --to store --channel live --key key
first=$(find store/packs -name '*.pack')
check "install" "$LARDER" fetch store#live inst --trust key.pub
check "publish the next" "$LARDER" publish two --to store --channel live --key key
second=$(find store/packs -name '*.pack' ! -path "$first")
check "all is there" "$LARDER" verify store#live --deep

# Only what is new in the second release lies in its pack.
mv "$second" saved
check_status "a pack is gone: integrity" 4 "$LARDER" verify store#live --json
cp out said
check "it is named" grep -qF "$(basename "$second")" said
check_status "fetch" 3 "$LARDER" fetch store#live inst --trust key.pub --cache fresh
check_says "names it too" "$(basename "$second")"
same_tree "the installation stays" one inst
mv saved "$second"

mv "$first" saved
check_status "an older pack is gone: integrity" 4 "$LARDER" verify store#live --json
cp out said
check "it is named" grep -qF "$(basename "$first")" said
check "with a file that it held" grep -qF '"icons/101.svg"' said
check_number "and none that it did not" "$(grep -cF '"icons/200-2.svg"' said)" -eq 0
mv saved "$first"

cp "$second" saved
truncate -s -100 "$second"
check_status "a pack is cut: integrity" 4 "$LARDER" verify store#live
cp out said
check "both lengths are told" grep -q "has $(stat -c %s "$second") bytes, the record says $(stat -c %s saved)" said
cp saved "$second"
check "all is there again" "$LARDER" verify store#live --deep
