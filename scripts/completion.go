package scripts

// bashWords ends the completion script for bash. What cobra writes needs the
// bash-completion package to split the line into words, and fails without it at
// each press of the key; this stands in where the package is missing. Bash
// breaks words at "=" and ":", which are put together again here.
const bashWords = `
# Without the bash-completion package, this splits the line into words.
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
__ralph_init_completion()
{
    local i word glue=""
    COMPREPLY=()
    words=()
    cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#words[@]} > 1)) && [[ $word == [=:] || -n $glue ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        glue=""
        [[ $word == [=:] ]] && glue=1
        ((i == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
    cur=${words[cword]}
    prev=""
    ((cword > 0)) && prev=${words[cword-1]}
    return 0
}
fi
`
