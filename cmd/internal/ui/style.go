package ui

// Style colours text, or leaves it as it is.
type Style struct{ Color bool }

func (s Style) wrap(code, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for what matters most.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim is for what matters least.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Red is for failure.
func (s Style) Red(text string) string { return s.wrap("31", text) }

// Green is for success.
func (s Style) Green(text string) string { return s.wrap("32", text) }

// Yellow is for warnings and for what waits.
func (s Style) Yellow(text string) string { return s.wrap("33", text) }

// Cyan is for what goes on.
func (s Style) Cyan(text string) string { return s.wrap("36", text) }

// Field is a line with a name, padded to width, and its value; "" if the value is empty.
func (s Style) Field(name string, width int, value string) string {
	if value == "" {
		return ""
	}
	return "  " + s.Dim(Pad(name, width)) + " " + Line(value) + "\n"
}
