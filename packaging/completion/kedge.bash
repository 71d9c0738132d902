# Completion of kedge in bash, and in zsh after `autoload -U bashcompinit && bashcompinit`.
#
# Commands and options are what the programs' own --help lists, so they are never out of date; each help is read once in a shell.

declare -gA _kedge_known

# _kedge_help WORD...: what `kedge WORD... --help` says, in _kedge_text.
_kedge_help() {
  local call="kedge $*"
  if [[ -z ${_kedge_known[$call]+set} ]]; then
    _kedge_known[$call]=$(COLUMNS=200 "${COMP_WORDS[0]/#\~/$HOME}" "$@" --help 2>/dev/null)
  fi
  _kedge_text=${_kedge_known[$call]}
}

# The commands of a help: words at the begin of its indented lines, in the sections that list them.
_kedge_commands() {
  awk '/^(Subcommands|Programs of their own|positional arguments)/ { listed = 1; next } /^[^ ]/ { listed = 0 }
       listed && /^ +[a-z][a-z-]*  / { print $1 }'
}

_kedge() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=() i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] && return  # what follows is the application
    [[ ${#command[@]} -eq 0 || (${#command[@]} -eq 1 && ${command[0]} == plan) ]] || continue
    [[ ${COMP_WORDS[i]} == [a-z]* ]] && command+=("${COMP_WORDS[i]}")
  done
  case $before in
    --config | --store | --output | -o | --hosts | --agent-log | --looks | --schedule | --png | --html)
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
      ;;
  esac
  local words _kedge_text
  _kedge_help "${command[@]}"
  if [[ $word == -* ]]; then
    words=$(grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' <<<"$_kedge_text" | tr -d ' ,')
  elif [[ ${#command[@]} -eq 0 || (${#command[@]} -eq 1 && ${command[0]} == plan) ]]; then
    words=$(_kedge_commands <<<"$_kedge_text")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word" | sort -u)
}

complete -o filenames -o bashdefault -F _kedge kedge
