#!/bin/bash
# The main job through a folder store, on a generated tree of every kind: keys, publishing, reading without
# installing, installing, updating, going back, archives, exports; and what each command says.
# size: quick
# limit: 120
. "$ROOT/tests/scenario/lib.sh"

make_tree one 1
make_tree two 2

# ---- keys ----
check "keygen" "$LARDER" keygen key
check_number "the key is secret" "$(stat -c %a key)" -eq 600
check_status "a key is never replaced" 1 "$LARDER" keygen key
check_says "and the file is named" "key: exists already"

# ---- publish and install ----
check "publish the first release" "$LARDER" publish one --to store --channel live --key key --note first --json
check_number "sequence 1" "$(json release.sequence)" -eq 1
check "fetch" "$LARDER" fetch store#live inst --trust key.pub --json
check_number "all files written" "$(json files_written)" -eq "$(json files)"
same_tree "installed tree equals the source" one inst
check "fetch again" "$LARDER" fetch store#live inst --json
check_number "fetches no block: one request, the record" "$(json requests)" -eq 1
check_number "writes no file" "$(json files_written)" -eq 0
check "verify the installation" "$LARDER" verify inst
check "publish the second release" "$LARDER" publish two --to store --channel live --key key --json
new_blocks=$(json new_blocks)
check_number "only new blocks are stored" "$new_blocks" -lt 80
check "update" "$LARDER" fetch store#live inst --json
check_number "bytes are reused" "$(json bytes_reused)" -gt 1000000
same_tree "updated tree equals the source" two inst
check "back to the first by number" "$LARDER" fetch store#live@1 inst --json
same_tree "the first again" one inst
check "and forward again" "$LARDER" fetch store#live inst --json
same_tree "the second again" two inst

# ---- what a user changes is put right; what is not ours stays ----
echo mine >inst/mine.txt
echo broken >inst/README.txt
rm inst/icons/001.svg
chmod 600 inst/bin/tool.sh
check_status "verify sees the damage" 4 "$LARDER" verify inst --json
check_number "three differences" "$(json faults.2.path >/dev/null && echo 3)" -eq 3
check "fetch mends" "$LARDER" fetch store#live inst --json
check_number "two files were written" "$(json files_written)" -eq 2
check "what is not ours stays" grep -q mine inst/mine.txt
rm inst/mine.txt
same_tree "mended" two inst

# ---- reading without installing ----
check "ls" "$LARDER" ls store#live icons
check "ls of the whole tree" "$LARDER" ls store#live --recursive --json
check "stat" "$LARDER" stat store#live levels/world.map --json
check_number "stat tells the length" "$(json bytes)" -eq 2000000
check "cat of a large file" sh -c '"$0" cat store#live levels/world.map | cmp - two/levels/world.map' "$LARDER"
check "cat through a symlink" sh -c '"$0" cat store#live icons-link/101.svg | cmp - two/icons/101.svg' "$LARDER"
check "cat of an older release" sh -c '"$0" cat store#live@1 levels/tiles.bin | cmp - one/levels/tiles.bin' "$LARDER"
check_status "cat of nothing" 3 "$LARDER" cat store#live not/there
check_status "cat of a folder" 1 "$LARDER" cat store#live icons
check_status "a path that climbs" 1 "$LARDER" cat store#live ../key
check "log" "$LARDER" log store#live --json
check_number "the newest first" "$(json releases.0.sequence)" -eq 2
check_number "two releases" "$(json releases.1.sequence)" -eq 1
check "diff" "$LARDER" diff store#live@1 store#live --json
check_number "diff counts what an update fetches" "$(json new_blocks)" -lt "$new_blocks"
check_number "removed paths" "$(json removed)" -eq 21
check "verify the store" "$LARDER" verify store#live --json
check "verify the store, every block" "$LARDER" verify store#live --deep --json

# ---- offline ----
check_status "offline, blocks not held" 5 "$LARDER" cat store#live sound/theme.ogg --offline
check_says "says so" "offline"
check "offline update of what is installed" "$LARDER" fetch store#live inst --offline --json
check_number "asks nobody" "$(json requests)" -eq 0

# ---- archives ----
check "pack" "$LARDER" pack two two.pack --json
check "pack again elsewhere" "$LARDER" pack two again.pack --jobs 1
check "same input, same bytes" cmp two.pack again.pack
check "verify the pack" "$LARDER" verify two.pack
check "unpack" "$LARDER" unpack two.pack unpacked
same_tree "unpacked tree equals the source" two unpacked
if [ -e unpacked/.larder ]; then not_ok "unpack leaves no record" ".larder is there"; else ok "unpack leaves no record"; fi
check "ls of a pack" "$LARDER" ls two.pack
check "cat from a pack" sh -c '"$0" cat two.pack sound/theme.ogg | cmp - two/sound/theme.ogg' "$LARDER"
check "install from a pack" "$LARDER" fetch two.pack from-pack
same_tree "installed from the pack" two from-pack
for codec in none lz4 zstd auto; do
	check "pack with codec $codec" "$LARDER" pack two $codec.pack --codec $codec
	check "unpack codec $codec" "$LARDER" unpack $codec.pack $codec.dir
	same_tree "codec $codec" two $codec.dir
done
check "export" "$LARDER" export store#live live.pack
check "verify the export" "$LARDER" verify live.pack
check "install from the export" "$LARDER" fetch live.pack from-export --offline
same_tree "installed from the export" two from-export
mkdir empty
check "pack of an empty folder" "$LARDER" pack empty empty.pack
check "unpack of an empty pack" "$LARDER" unpack empty.pack empty.out
same_tree "empty" empty empty.out
check "publish an empty folder" "$LARDER" publish empty --to store --channel empty --key key
check "fetch an empty release" "$LARDER" fetch store#empty empty.inst
check_status "an archive inside its own folder" 1 "$LARDER" pack two two/x.pack

# ---- links and names that may not be published ----
make_tree links 1
ln -s /etc/passwd links/absolute
ln -s ../../out links/icons/outward
check_status "outward links are refused" 1 "$LARDER" publish links --to store --channel links --key key
check_says "each is listed" "icons/outward"
check "dropped on request" "$LARDER" publish links --to store --channel links --key key --links drop
check "fetch without them" "$LARDER" fetch store#links links.inst
rm links/absolute links/icons/outward
same_tree "the inner links are kept" links links.inst
mkdir clash
echo 1 >clash/Readme
echo 2 >clash/README
check_status "names that clash" 1 "$LARDER" pack clash clash.pack
check_says "are named" "README"
mkdir device
echo 1 >device/con.txt
check_status "device names" 1 "$LARDER" pack device device.pack
mkfifo empty/pipe
check_status "a pipe" 1 "$LARDER" pack empty pipe.pack

# ---- reuse ----
mkdir renamed
cp -a two renamed/top
check "publish under a new top folder" "$LARDER" publish renamed --to store --channel live --key key --json
check_number "stores metadata only" "$(json new_bytes_stored)" -lt 60000
check "update across the renaming" "$LARDER" fetch store#live inst --json
check_number "fetches no file block" "$(json bytes_fetched)" -lt 60000
same_tree "renamed" renamed inst

# ---- kinds that change ----
rm -rf kinds && make_tree kinds 1
check "publish before" "$LARDER" publish kinds --to store --channel kinds --key key
check "install before" "$LARDER" fetch store#kinds kinds.inst
rm -r kinds/icons && echo file >kinds/icons
rm kinds/README.txt && mkdir kinds/README.txt && echo in >kinds/README.txt/in
rm kinds/latest && echo file >kinds/latest
rm kinds/empty.dat && ln -s bin kinds/empty.dat
chmod 500 kinds/bin
check "publish after" "$LARDER" publish kinds --to store --channel kinds --key key
check "update after" "$LARDER" fetch store#kinds kinds.inst
same_tree "kinds changed" kinds kinds.inst
check "and back" "$LARDER" fetch store#kinds@1 kinds.inst
make_tree kinds1 1
same_tree "kinds changed back" kinds1 kinds.inst

# ---- usage ----
check_status "unknown command" 2 "$LARDER" frobnicate
check_status "unknown option" 2 "$LARDER" fetch store#live inst --frobnicate
check_status "option of another command" 2 "$LARDER" cat store#live x --note y
check_status "too few arguments" 2 "$LARDER" fetch store#live
check_status "no key" 2 "$LARDER" publish two --to store --channel live
check_status "bad channel" 2 "$LARDER" fetch 'store#Live!' inst
check_status "no trust for a new store" 2 "$LARDER" ls "$WORK/store#live" --cache fresh
check_says "says what to do" "--trust"
check "dry run" "$LARDER" publish one --to store --channel live --key key --dry-run --json
check_number "dry run says the next number" "$(json release.sequence)" -eq 4
check "and moves nothing" "$LARDER" log store#live --json
check_number "still the third" "$(json releases.0.sequence)" -eq 3
