# shellcheck shell=bash
# The shell scripts of deploy/ and tests/ source this file. The comment at the head of a script is its
# help, and the first indented lines in it are its usage, so that each is written once. Needs only bash.

# Prints the comment at the head of the script, without the "#!" line and the comment signs.
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

# If --help or -h is among the arguments before --, prints the help and exits with 0.
help_if_asked() {
  local word
  for word in "$@"; do
    case $word in
      --) return 0 ;;
      -h | --help) print_help && exit 0 ;;
    esac
  done
}

# Prints the error "$1" and the usage, and exits with 2.
wrong_arguments() {
  {
    printf '%s: %s\n' "${0##*/}" "$1"
    print_usage
  } >&2
  exit 2
}

# For scripts without arguments.
no_arguments() {
  help_if_asked "$@"
  (($# == 0)) || wrong_arguments "got '$1', expected no arguments"
}
