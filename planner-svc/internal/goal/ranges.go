package goal

import (
	"regexp"
	"strconv"
	"strings"
)

// Lines is a range of lines that a clause asks for. All fields zero: none.
type Lines struct {
	From, To int // counted from 1, both included
	Last     int // that many from the end
}

const numeral = `(\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|fifty|hundred|few|[一二两三四五六七八九十百几]+)`

var (
	firstLines = regexp.MustCompile(`(?i)\b(?:first|top|head)\s+` + numeral + `\s+(?:lines?|rows?)\b|\bhead\s+-n?\s*(\d+)|前\s*` + numeral + `\s*行|开头\s*` + numeral + `\s*行`)
	lastLines  = regexp.MustCompile(`(?i)\b(?:last|bottom|final|tail)\s+` + numeral + `\s+(?:lines?|rows?)\b|\btail\s+-n?\s*(\d+)|(?:最后|末尾|后)\s*` + numeral + `\s*行`)
	lineRange  = regexp.MustCompile(`(?i)\blines?\s+(\d+)\s*(?:-|–|—|~|to|through|until|and|till)\s*(?:line\s+)?(\d+)|第?\s*(\d+)\s*行?\s*(?:到|至|-|–|~|—)\s*第?\s*(\d+)\s*行`)
	oneLine    = regexp.MustCompile(`(?i)\bline\s+(\d+)|第\s*(\d+)\s*行`)
	edgeLine   = regexp.MustCompile(`(?i)\b(first|last)\s+line\b|(第一|最后一|首|末)行`)
)

var numerals = map[string]int{"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100, "few": 10, "几": 10}

var digitsZH = map[rune]int{'一': 1, '二': 2, '两': 2, '三': 3, '四': 4, '五': 5, '六': 6, '七': 7, '八': 8, '九': 9}

// findLines reads "first 20 lines", "lines 3 to 9", "last line", 前 20 行, 第 3 到 9 行 and their like.
func findLines(masked string) Lines {
	if m := lineRange.FindStringSubmatch(masked); m != nil {
		from, to := number(m[1]+m[3]), number(m[2]+m[4])
		if from > 0 && to >= from {
			return Lines{From: from, To: to}
		}
	}
	if m := firstLines.FindStringSubmatch(masked); m != nil {
		return Lines{From: 1, To: number(m[1] + m[2] + m[3] + m[4])}
	}
	if m := lastLines.FindStringSubmatch(masked); m != nil {
		return Lines{Last: number(m[1] + m[2] + m[3])}
	}
	if m := oneLine.FindStringSubmatch(masked); m != nil {
		n := number(m[1] + m[2])
		return Lines{From: n, To: n}
	}
	if m := edgeLine.FindStringSubmatch(masked); m != nil {
		switch strings.ToLower(m[1] + m[2]) {
		case "last", "最后一", "末":
			return Lines{Last: 1}
		}
		return Lines{From: 1, To: 1}
	}
	return Lines{}
}

// number reads digits, English number words and Chinese numerals up to 百; 0 where it is none of them or too large.
func number(s string) int {
	s = strings.ToLower(s)
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return int(n)
	}
	if n, ok := numerals[s]; ok {
		return n
	}
	total, digit := 0, 0
	for _, r := range s {
		switch r {
		case '百':
			total, digit = total+max(digit, 1)*100, 0
		case '十':
			total, digit = total+max(digit, 1)*10, 0
		default:
			digit = digitsZH[r]
		}
	}
	return total + digit
}
