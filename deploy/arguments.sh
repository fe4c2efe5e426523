# shellcheck shell=bash
# Sourced by the shell scripts of deploy/ and tests/. The comment at a script's head is its help, and the
# first indented lines in it are its usage, so that each is written once. Needs nothing but bash.

# The comment at the head of the script, without the first line and the signs in front.
print_help() {
  local line
  while IFS= read -r line && [[ $line == '#'* ]]; do
    [[ $line == '#!'* ]] && continue
    line=${line#'#'}
    printf '%s\n' "${line# }"
  done <"$0"
}

print_usage() {
  local line usage=''
  while IFS= read -r line; do
    if [[ $line == '  '* ]]; then
      usage+="$line"$'\n'
    elif [[ -n $usage ]]; then
      break
    fi
  done < <(print_help)
  printf 'Usage:\n%s' "$usage"
}

# With --help or -h among the arguments, prints the help and exits 0. Behind -- nothing is looked at.
help_if_asked() {
  local word
  for word in "$@"; do
    case $word in
      --) return 0 ;;
      -h | --help) print_help && exit 0 ;;
    esac
  done
}

# Says what is wrong with the arguments, and the usage, and exits 2.
wrong_arguments() {
  {
    printf '%s: %s\n' "${0##*/}" "$1"
    print_usage
  } >&2
  exit 2
}

# For a script without any arguments.
no_arguments() {
  help_if_asked "$@"
  (($# == 0)) || wrong_arguments "got '$1', expected no arguments"
}
