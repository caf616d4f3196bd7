package ui

import "strings"

// Wrap makes a text harmless and breaks its lines between words, where they would be wider than a terminal of so many columns; 0 breaks
// none. The first line begins at the column used, and all others at hang, or further to the left where little room would be left. What has no
// space stays whole, as does a command of pawl up to the next mark: paths, addresses and commands are copied.
func Wrap(text string, columns, used, hang int) string {
	const little, left = 24, 4
	if columns > 0 && columns-hang < little {
		hang = min(hang, left)
	}
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(Text(text), "\n"), "\n") {
		if i > 0 {
			b.WriteString("\n" + strings.Repeat(" ", hang))
			used = hang
		}
		body := strings.TrimLeft(line, " ")
		own := len(line) - len(body)
		b.WriteString(line[:own])
		used += own
		for j, word := range words(body) {
			switch {
			case j == 0:
			case columns > 0 && used+1+Width(word) > columns:
				b.WriteString("\n" + strings.Repeat(" ", hang+own))
				used = hang + own
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += Width(word)
		}
	}
	return b.String()
}

// words are what stays together of a line.
func words(line string) []string {
	var list []string
	command := false
	for _, word := range strings.Split(line, " ") {
		if command {
			list[len(list)-1] += " " + word
		} else {
			list = append(list, word)
		}
		bare := strings.TrimLeft(word, "(`")
		command = (command || bare == "pawl") && !strings.ContainsAny(word[max(len(word)-1, 0):], ",;:.)`")
	}
	return list
}

// stderrOf is what the pool puts before the end of a program's stderr.
const stderrOf = "; its stderr ends with: "

// Failure is an error of a server, with what its program wrote in lines of its own.
func Failure(text string) string {
	if said, tail, ok := strings.Cut(text, stderrOf); ok && strings.Contains(strings.TrimSpace(tail), "\n") {
		return said + strings.TrimRight(stderrOf, " ") + "\n" + strings.TrimRight(tail, "\n")
	}
	return text
}

// Brief is the beginning of an error of a server, without what its program wrote, where its id is said already.
func Brief(id, text string) string {
	said, _, _ := strings.Cut(strings.TrimSpace(text), stderrOf)
	first, _, cut := strings.Cut(said, "\n")
	if cut {
		first += " …"
	}
	return strings.TrimPrefix(first, "MCP server "+id+": ")
}
