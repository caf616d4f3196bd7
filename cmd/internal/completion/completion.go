// Package completion writes the completion scripts of bash, zsh and fish from the command line's model: commands, flags,
// the words that a flag takes, and where a file or folder is wanted. The scripts hold everything and call nothing.
package completion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Command is what can follow on one place of the command line.
type Command struct {
	Path  string // the commands so far, such as "mcp add"; "" for none
	Subs  []Word
	Flags []Flag // those of the commands before it too
	Args  []string
}

// Word is a command and what it is for.
type Word struct{ Name, Help string }

// Flag is a flag and what it takes.
type Flag struct {
	Name  string // without --
	Short string // one letter, or ""
	Help  string
	Takes Takes
	Words []string // what it takes, where that is known
}

// Takes is what a flag takes.
type Takes int

// What a flag takes.
const (
	Nothing Takes = iota
	Value
	File
	Dir
)

// Of reads the model.
func Of(root *kong.Node) []Command { return collect(root, "", nil) }

func collect(node *kong.Node, path string, inherited []Flag) []Command {
	c := Command{Path: path, Flags: slices.Clone(inherited)}
	for _, f := range node.Flags {
		if !f.Hidden {
			c.Flags = append(c.Flags, flagsOf(f)...)
		}
	}
	for _, p := range node.Positional {
		if len(c.Args) == 0 {
			c.Args = words(p)
		}
	}
	all := []Command{}
	for _, child := range node.Children {
		if child.Type != kong.CommandNode || child.Hidden {
			continue
		}
		c.Subs = append(c.Subs, Word{child.Name, firstSentence(child.Help)})
		all = append(all, collect(child, strings.TrimSpace(path+" "+child.Name), c.Flags)...)
	}
	return append([]Command{c}, all...)
}

func flagsOf(f *kong.Flag) []Flag {
	flag := Flag{Name: f.Name, Help: firstSentence(f.Help), Words: words(f.Value)}
	if f.Short != 0 {
		flag.Short = string(f.Short)
	}
	switch {
	case f.IsBool():
		flag.Words = nil
	case f.Tag.Type == "existingdir":
		flag.Takes = Dir
	case f.Tag.Type == "existingfile" || f.Tag.Type == "path" || f.Name == "config":
		flag.Takes = File
	default:
		flag.Takes = Value
	}
	return []Flag{flag}
}

func words(v *kong.Value) []string {
	var list []string
	for _, w := range v.EnumSlice() {
		if w != "" {
			list = append(list, w)
		}
	}
	return list
}

// firstSentence is short and without characters that a shell would have to be protected from.
func firstSentence(help string) string {
	for _, end := range []string{". ", ": ", "; ", " ("} {
		help, _, _ = strings.Cut(help, end)
	}
	help = strings.NewReplacer(`'`, "", "`", "", `"`, "", `\`, "", "$", "", ":", "", "[", "(", "]", ")").Replace(help)
	return strings.TrimSuffix(strings.TrimSpace(help), ".")
}

// Script writes the script of a shell.
func Script(shell string, commands []Command) (string, error) {
	switch shell {
	case "bash":
		return bash(commands), nil
	case "zsh":
		return zsh(commands), nil
	case "fish":
		return fish(commands), nil
	}
	return "", fmt.Errorf("there is no completion for %q; there is bash, zsh and fish", shell)
}

// steps are the places that a word leads to, as patterns "path/word" and the new path.
func steps(commands []Command, line func(pattern, path string)) {
	for _, c := range commands {
		for _, s := range c.Subs {
			line(c.Path+"/"+s.Name, strings.TrimSpace(c.Path+" "+s.Name))
		}
	}
}

// flagWords are all spellings of all flags of a place.
func flagWords(c Command) []string {
	var list []string
	for _, f := range c.Flags {
		list = append(list, "--"+f.Name)
	}
	return list
}

// spellings are the patterns of a flag: --name and -n.
func spellings(path string, f Flag) []string {
	list := []string{fmt.Sprintf("'%s:--%s'", path, f.Name)}
	if f.Short != "" {
		list = append(list, fmt.Sprintf("'%s:-%s'", path, f.Short))
	}
	return list
}
