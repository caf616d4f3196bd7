package openai

import (
	"errors"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode reads a body. Unknown members are ignored, as OpenAI's servers do; a value of a wrong type is an error that names it.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrong *json.SemanticError
	var broken *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &broken):
		return invalid(path(broken.JSONPointer), "the body is not valid JSON: %w", broken)
	case errors.As(err, &wrong):
		param, want := path(wrong.JSONPointer), kindName(wrong.GoType)
		switch {
		case wrong.JSONKind == '0' && wrong.JSONValue != nil: // such as -1 for a number of tokens
			return invalid(param, "%s has to be %s, not %.50s", name(param), want, wrong.JSONValue)
		case wrong.Err != nil:
			return invalid(param, "%s cannot be used: %w", name(param), wrong.Err)
		}
		return invalid(param, "%s has to be %s", name(param), want)
	}
	return invalid("", "the body cannot be read: %w", err)
}

// name returns a parameter as errors call it.
func name(param string) string {
	if param == "" {
		return "the body"
	}
	return "`" + param + "`"
}

var index = regexp.MustCompile(`\.(\d+)`)

// path returns a JSON pointer as a path such as messages[0].content.
func path(p jsontext.Pointer) string {
	var tokens []string
	for token := range p.Tokens() {
		tokens = append(tokens, token)
	}
	return index.ReplaceAllString(strings.Join(tokens, "."), "[$1]")
}

func kindName(t reflect.Type) string {
	if t == nil {
		return "another value"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Uint32:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// contents are the parts of a message's content, which is a string or an array of parts.
type contents []contentPart

// contentPart is a part of a message.
type contentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
	InputAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *contents) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '"':
		part := contentPart{Type: "text"}
		err := json.Unmarshal(data, &part.Text)
		*c = contents{part}
		return err
	case '[':
		return json.Unmarshal(data, (*[]contentPart)(c))
	}
	return errors.New("it has to be a string or an array of parts")
}

// stops are the texts that end a reply: a string or an array of strings.
type stops []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *stops) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '"':
		*s = stops{""}
		return json.Unmarshal(data, &(*s)[0])
	case '[':
		return json.Unmarshal(data, (*[]string)(s))
	}
	return errors.New("it has to be a string or an array of strings")
}

// toolChoice says which tools the model may or must call: a word, or an object that names a function.
type toolChoice struct {
	mode string // auto, none, required; "": not set
	name string // of the function that must be called
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *toolChoice) UnmarshalJSON(data []byte) error {
	switch jsontext.Value(data).Kind() {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(data, &c.mode)
	}
	var object struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if err := json.Unmarshal(data, &object); err != nil || object.Type != "function" || object.Function.Name == "" {
		return errors.New(`it has to be "auto", "none", "required" or {"type": "function", "function": {"name": …}}`)
	}
	c.name = object.Function.Name
	return nil
}

// at returns the path of a member of an array's object.
func at(array string, i int, member string) string {
	return array + "[" + strconv.Itoa(i) + "]." + member
}
