package completion

import (
	"fmt"
	"strings"
)

func zsh(commands []Command) string {
	var b strings.Builder
	b.WriteString(`#compdef pawl
# zsh completion for pawl
_pawl() {
    local at="" i
    local -a subs flags
    for ((i = 2; i < CURRENT; i++)); do
        case "$at/${words[i]}" in
`)
	steps(commands, func(pattern, path string) { fmt.Fprintf(&b, "        '%s') at='%s' ;;\n", pattern, path) })
	b.WriteString("        esac\n    done\n    case \"$at:${words[CURRENT-1]}\" in\n")
	for _, c := range commands {
		for _, f := range c.Flags {
			if answer := zshValue(f); answer != "" {
				fmt.Fprintf(&b, "    %s) %s; return ;;\n", strings.Join(spellings(c.Path, f), "|"), answer)
			}
		}
	}
	b.WriteString("    esac\n    case \"$at\" in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "    '%s')\n        subs=(%s)\n        flags=(%s) ;;\n", c.Path, zshSubs(c), zshFlags(c))
	}
	b.WriteString(`    esac
    if [[ "${words[CURRENT]}" == -* ]]; then
        _describe -o option flags
    elif ((${#subs})); then
        _describe command subs
    else
        _files
    fi
}
if [[ "$funcstack[1]" == "_pawl" ]]; then
    _pawl "$@"
else
    compdef _pawl pawl
fi
`)
	return b.String()
}

func zshValue(f Flag) string {
	switch {
	case len(f.Words) > 0:
		return "compadd -- " + strings.Join(f.Words, " ")
	case f.Takes == File:
		return "_files"
	case f.Takes == Dir:
		return "_files -/"
	case f.Takes == Value:
		return "_message value"
	}
	return ""
}

func zshSubs(c Command) string {
	var list []string
	for _, a := range c.Args {
		list = append(list, "'"+a+"'")
	}
	for _, s := range c.Subs {
		list = append(list, fmt.Sprintf("'%s:%s'", s.Name, s.Help))
	}
	return strings.Join(list, " ")
}

func zshFlags(c Command) string {
	var list []string
	for _, f := range c.Flags {
		list = append(list, fmt.Sprintf("'--%s:%s'", f.Name, f.Help))
	}
	return strings.Join(list, " ")
}
