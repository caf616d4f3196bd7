package strictjson

// Document is one JSON value that Parse accepted, as compact text with numbers, strings and the order of members as they were written.
// Parse a text once, where it arrives, and pass the Document on: no reader has to check it again.
//
//	input, err := schema.ParseObject(req.GetInput(), req.GetInputJson()) // calls Parse
//	err = inputSchema.ValidateDocument(input)                            // does not check the syntax again
//	request = append(request, input.String()...)                         // valid JSON without line feeds
//
// Members, Items, Kind and MemberMap read the text of a Document.
type Document struct{ text string }

// Parse validates and compacts one JSON value. It copies the text only if there is space between tokens. The error is an *Error.
func Parse(text string, rules Rules) (Document, error) {
	if err := Check(text, rules); err != nil {
		return Document{}, err
	}
	return Document{Compact(text)}, nil
}

// Checked returns the Document of a value within a text that Check, Scan or Parse accepted. It is not compacted.
func Checked(value string) Document { return Document{value} }

// String returns the document's text; "" is the zero Document's.
func (d Document) String() string { return d.text }
