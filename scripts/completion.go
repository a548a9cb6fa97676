package scripts

import (
	"strings"

	"github.com/spf13/cobra"
)

func (inv *invocation) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print the completion script for a shell",
		Long: "Print the completion script for a shell: commands, flags and their values, sessions, tasks, epics, agents, profiles. `make install` puts the scripts where bash, zsh and fish find them.\n" +
			"Example: source <(ralph completion bash)\nExample: ralph completion zsh > \"${fpath[1]}/_ralph\"\nExample: ralph completion fish > ~/.config/fish/completions/ralph.fish\nExample: ralph completion powershell | Out-String | Invoke-Expression",
		ValidArgs: shells,
		Args:      wordsOf(1, 1, shells...),
		RunE: func(c *cobra.Command, args []string) error {
			switch root := c.Root(); args[0] {
			case "bash":
				var script strings.Builder
				if err := root.GenBashCompletionV2(&script, true); err != nil {
					return err
				}
				return inv.out.print(strings.ReplaceAll(script.String(), "_filedir", "__ralph_filedir") + bashWords)
			case "zsh":
				return root.GenZshCompletion(inv.out)
			case "fish":
				return root.GenFishCompletion(inv.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(inv.out)
			}
		},
	}
}

// bashWords ends the completion script for bash. What cobra writes needs the
// bash-completion package to split the line into words and to list files, and
// fails without it at each press of the key; this stands in where the package is
// missing. Bash breaks words at "=" and ":", which are put together again here.
const bashWords = `
# Without the bash-completion package, these list files (all, or -d directories)
# and split the line into words.
__ralph_filedir()
{
    if declare -F _filedir >/dev/null 2>&1; then
        _filedir "$@"
        return
    fi
    local IFS=$'\n' kind=-f
    [[ ${1-} == -d ]] && kind=-d
    COMPREPLY=($(compgen $kind -- "$cur"))
    [[ $(type -t compopt) == builtin ]] && compopt -o filenames 2>/dev/null
    return 0
}
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
