package cli

import (
	_ "embed"
	"strings"

	"github.com/alecthomas/kong"
)

// helpFile holds the long help of each command behind a line `-- command --`.
//
//go:embed help.txt
var helpFile string

// describe gives each command its long help.
func describe(k *kong.Kong) error {
	texts := map[string]string{}
	for section := range strings.SplitSeq("\n"+helpFile, "\n-- ") {
		name, text, _ := strings.Cut(section, " --\n")
		texts["pawl "+name] = strings.TrimSpace(text)
	}
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if n, ok := node.(*kong.Node); ok && n.Type == kong.CommandNode {
			n.Detail = texts[n.FullPath()]
		}
		return next(nil)
	})
}

// printHelp shows a command's own flags; those of all commands are only named, and shown by pawl --help.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if ctx.Selected() == nil {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	var names []string
	for _, f := range ctx.Model.Flags {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
			f.Hidden = true
			defer func() { f.Hidden = false }()
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := ctx.Stdout.Write([]byte("\nGlobal flags (explained by pawl --help):\n" + indented(names, options.WrapUpperBound)))
	return err
}

// indented lists words in lines of at most width columns.
func indented(words []string, width int) string {
	var b strings.Builder
	used := 0
	for _, word := range words {
		if used == 0 || used+1+len(word) > width {
			if used > 0 {
				b.WriteByte('\n')
			}
			b.WriteString("  " + word)
			used = 2 + len(word)
			continue
		}
		b.WriteString(" " + word)
		used += 1 + len(word)
	}
	return b.String() + "\n"
}
