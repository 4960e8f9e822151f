# Functions for batch scripts.
here=$(dirname "${BASH_SOURCE[0]}")
say_hello() {
    echo "hello $1"
    "$here/probe" "$1"
}
