package completion

import (
	"fmt"
	"strings"
)

func bash(commands []Command) string {
	var b strings.Builder
	b.WriteString(`# bash completion for pawl
_pawl() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" at="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at/${COMP_WORDS[i]}" in
`)
	steps(commands, func(pattern, path string) { fmt.Fprintf(&b, "        '%s') at='%s' ;;\n", pattern, path) })
	b.WriteString("        esac\n    done\n    case \"$at:$prev\" in\n")
	for _, c := range commands {
		for _, f := range c.Flags {
			if answer := bashValue(f); answer != "" {
				fmt.Fprintf(&b, "    %s) %s; return ;;\n", strings.Join(spellings(c.Path, f), "|"), answer)
			}
		}
	}
	b.WriteString("    esac\n    local flags=\"\" words=\"\"\n    case \"$at\" in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    '%s') flags='%s' words='%s' ;;\n", c.Path, strings.Join(flagWords(c), " "), strings.Join(subWords(c), " "))
	}
	b.WriteString(`    esac
    if [[ "$cur" == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    elif [[ -n "$words" ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    fi
}
complete -o default -F _pawl pawl
`)
	return b.String()
}

// bashValue completes what a flag takes; "" where it takes nothing. Where nothing is known, nothing is offered.
func bashValue(f Flag) string {
	switch {
	case len(f.Words) > 0:
		return fmt.Sprintf(`COMPREPLY=($(compgen -W '%s' -- "$cur"))`, strings.Join(f.Words, " "))
	case f.Takes == File:
		return `COMPREPLY=($(compgen -f -- "$cur"))`
	case f.Takes == Dir:
		return `COMPREPLY=($(compgen -d -- "$cur"))`
	case f.Takes == Value:
		return "compopt +o default"
	}
	return ""
}

func subWords(c Command) []string {
	list := append([]string{}, c.Args...)
	for _, s := range c.Subs {
		list = append(list, s.Name)
	}
	return list
}
