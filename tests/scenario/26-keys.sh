#!/bin/bash
# Local archives with keys: every reader reads them with the key; without it names are listed and nothing else is had;
# a wrong key, a changed pack, and a store that is offered one, each have their own exit status.
# size: quick
# limit: 60
. "$ROOT/tests/scenario/lib.sh"

mkdir -p tree/sub
python3 - <<'PY'
import random
rng = random.Random(26)
for name, data in {"a.txt": b"a secret sentence that lz4 likes\n" * 300, "sub/noise": rng.randbytes(300_000), "empty": b""}.items():
    with open("tree/" + name, "wb") as file:
        file.write(data)
PY
printf '%064x\n' 1 >title.key
printf '%064x\n' 2 >other.key
echo short >bad.key

check "pack, encrypted" "$LARDER" pack tree sealed.pack --encrypt-key title.key
check "pack, encrypted again" "$LARDER" pack tree again.pack --encrypt-key title.key
check "the same folder and key give the same bytes" cmp sealed.pack again.pack
check "pack, obfuscated" "$LARDER" pack tree hidden.pack --obfuscate xor
check "pack, plain" "$LARDER" pack tree plain.pack --codec none
check_status "one protection at a time" 2 "$LARDER" pack tree x.pack --obfuscate xor --encrypt-key title.key
check_status "another obfuscation" 2 "$LARDER" pack tree x.pack --obfuscate rot13
check_status "a key that is none" 1 "$LARDER" pack tree x.pack --encrypt-key bad.key
check_says "what a key is" "64 lower-case hexadecimal digits"
check_status "publish takes no key" 2 "$LARDER" publish tree --to store --channel live --key k --encrypt-key title.key
check "the sentence is in the plain pack" grep -q "secret sentence" plain.pack
check_status "and not in the encrypted one" 1 grep -q "secret sentence" sealed.pack
check_status "nor in the obfuscated one" 1 grep -q "secret sentence" hidden.pack

read_all() { # name pack options...
	check "$1: ls" "$LARDER" ls "$2" "${@:3}"
	check "$1: cat" "$LARDER" cat "$2" sub/noise "${@:3}"
	cp out got
	check "$1: cat gives the bytes" cmp got tree/sub/noise
	check "$1: stat" "$LARDER" stat "$2" a.txt "${@:3}"
	check "$1: verify" "$LARDER" verify "$2" "${@:3}"
	check "$1: unpack" "$LARDER" unpack "$2" "$1.out" "${@:3}"
	same_tree "$1: the tree is the same" tree "$1.out"
}
read_all encrypted sealed.pack --key-file title.key
read_all obfuscated hidden.pack
read_all plain plain.pack --key-file title.key

check "without the key names are listed" "$LARDER" ls sealed.pack
check_status "without the key no file is read" 8 "$LARDER" cat sealed.pack a.txt
check_says "it says why" "encrypted, and no key was given"
check_status "without the key only the stored bytes are checked" 8 "$LARDER" verify sealed.pack
check_status "another key" 4 "$LARDER" cat sealed.pack a.txt --key-file other.key
check_says "it says so" "another key"

cp sealed.pack damaged.pack
printf 'X' | dd of=damaged.pack bs=1 seek=200 conv=notrunc 2>"$WORK/dd.log"
check_status "damage is found without the key" 4 "$LARDER" verify damaged.pack
check_status "and with it" 4 "$LARDER" verify damaged.pack --key-file title.key
