package completion

import (
	"fmt"
	"slices"
	"strings"
)

func fish(commands []Command) string {
	var b strings.Builder
	b.WriteString(`# fish completion for pawl
function __pawl_at
    set -l at ''
    set -l words (commandline -opc)
    for word in $words[2..-1]
        switch "$at/$word"
`)
	steps(commands, func(pattern, path string) {
		fmt.Fprintf(&b, "            case '%s'\n                set at '%s'\n", pattern, path)
	})
	b.WriteString("        end\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n")
	for _, c := range commands {
		fishCommand(&b, c, commands[0].Flags)
	}
	return b.String()
}

// fishCommand offers what can follow on one place; flags of the root are offered everywhere, once.
func fishCommand(b *strings.Builder, c Command, global []Flag) {
	at := fmt.Sprintf("complete -c pawl -n '__pawl_at \"%s\"'", c.Path)
	for _, a := range c.Args {
		fmt.Fprintf(b, "%s -f -a '%s'\n", at, a)
	}
	for _, s := range c.Subs {
		fmt.Fprintf(b, "%s -f -a '%s' -d '%s'\n", at, s.Name, s.Help)
	}
	for _, f := range c.Flags {
		here := at
		isGlobal := slices.ContainsFunc(global, func(g Flag) bool { return g.Name == f.Name })
		if isGlobal && c.Path != "" {
			continue
		}
		if isGlobal {
			here = "complete -c pawl"
		}
		fmt.Fprintf(b, "%s -l %s%s%s -d '%s'\n", here, f.Name, fishShort(f), fishValue(f), f.Help)
	}
}

func fishShort(f Flag) string {
	if f.Short == "" {
		return ""
	}
	return " -s " + f.Short
}

func fishValue(f Flag) string {
	switch {
	case len(f.Words) > 0:
		return fmt.Sprintf(" -x -a '%s'", strings.Join(f.Words, " "))
	case f.Takes == File:
		return " -r -F"
	case f.Takes == Dir:
		return " -x -a '(__fish_complete_directories)'"
	case f.Takes == Value:
		return " -x"
	}
	return ""
}
