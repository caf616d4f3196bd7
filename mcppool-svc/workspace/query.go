package workspace

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// maxProgram bounds a compiled regular expression: matching time is the
// product of its size and the length of the line.
const maxProgram = 10_000

// query is what search_code looks for in a line: needle, re or both.
type query struct {
	needle []byte         // every matching line holds it; nil if that is not known
	fold   bool           // needle is in lower case, and compared with lower-cased text
	re     *regexp.Regexp // nil if holding needle is all
}

func newQuery(in searchCodeInput) (*query, error) {
	if strings.ContainsAny(in.Query, "\n\r") {
		return nil, errors.New("query holds a line break, and lines are searched one by one: search for a text within one line")
	}
	if in.Regex {
		return newRegexQuery(in)
	}
	return newTextQuery(in)
}

func newTextQuery(in searchCodeInput) (*query, error) {
	q := &query{fold: !hasUpper(in.Query)}
	if in.IgnoreCase != nil {
		q.fold = *in.IgnoreCase
	}
	ascii := isASCII(in.Query)
	switch {
	case !q.fold:
		q.needle = []byte(in.Query)
	case ascii:
		q.needle = []byte(strings.ToLower(in.Query))
	}
	if q.needle != nil && !in.WholeWord {
		return q, nil
	}
	var err error
	q.re, err = compile(regexp.QuoteMeta(in.Query), q.fold, in.WholeWord)
	return q, err
}

func newRegexQuery(in searchCodeInput) (*query, error) {
	q := &query{fold: in.IgnoreCase != nil && *in.IgnoreCase}
	if _, err := syntax.Parse(in.Query, syntax.Perl); err != nil {
		return nil, regexError(in.Query, err)
	}
	var err error
	if q.re, err = compile(in.Query, q.fold, in.WholeWord); err != nil {
		return nil, err
	}
	// Only where the prefix belongs to the whole expression is it a needle.
	if prefix, _ := q.re.LiteralPrefix(); prefix != "" && !q.fold && !in.WholeWord {
		q.needle = []byte(prefix)
	}
	return q, nil
}

// compile builds the expression for one line. \b knows ASCII words alone, so a
// whole word is spelled out; taking a neighbour in does no harm, because what
// counts is lines, not places.
func compile(expr string, fold, wholeWord bool) (*regexp.Regexp, error) {
	full := expr
	if wholeWord {
		full = `(?:^|[^\pL\pN_])(?:` + expr + `)(?:[^\pL\pN_]|$)`
	}
	if fold {
		full = "(?i)" + full
	}
	parsed, err := syntax.Parse(full, syntax.Perl)
	if err != nil {
		return nil, regexError(expr, err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, regexError(expr, err)
	}
	if len(program.Inst) > maxProgram {
		return nil, fmt.Errorf("the regular expression %q is too large: use smaller repetition counts", expr)
	}
	re, err := regexp.Compile(full)
	if err != nil {
		return nil, regexError(expr, err)
	}
	return re, nil
}

func regexError(expr string, err error) error {
	reason := err.Error()
	if syntaxErr, ok := errors.AsType[*syntax.Error](err); ok {
		reason = fmt.Sprintf("%s: `%s`", syntaxErr.Code, syntaxErr.Expr)
	}
	return fmt.Errorf("%q is not a regular expression in RE2 syntax (%s): correct it, or leave regex out to search for it as plain text", expr, reason)
}

func hasUpper(s string) bool { return strings.ContainsFunc(s, unicode.IsUpper) }

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
