package openai

import (
	"cmp"
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

// path returns a JSON pointer as a path such as messages[0].content, or the beginning of it: the client chooses names and depth.
func path(p jsontext.Pointer) string {
	const longest = 200
	var tokens []string
	for token := range p.Tokens() {
		tokens = append(tokens, token)
	}
	text := index.ReplaceAllString(strings.Join(tokens, "."), "[$1]")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
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
	Type       string   `json:"type"`
	Text       string   `json:"text"`
	Refusal    string   `json:"refusal"`
	ImageURL   imageURL `json:"image_url"`
	InputAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// imageURL is the URL of a picture: a string, or an object with it.
type imageURL string

// UnmarshalJSON implements json.Unmarshaler.
func (u *imageURL) UnmarshalJSON(data []byte) error {
	var object struct {
		URL string `json:"url"`
	}
	if jsontext.Value(data).Kind() != '{' {
		return json.Unmarshal(data, (*string)(u))
	}
	err := json.Unmarshal(data, &object)
	*u = imageURL(object.URL)
	return err
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

// toolChoice says which tools the model may or must call: a word, or an object that names a function, or a tool of an MCP server.
type toolChoice struct {
	mode string // auto, none, required; "": not set
	name string // of the function that must be called, or the id of a tool
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
		} `json:"function"` // in chat completions
		Name        string `json:"name"`
		ServerLabel string `json:"server_label"`
	}
	err := json.Unmarshal(data, &object)
	switch c.name = cmp.Or(object.Function.Name, object.Name); {
	case err == nil && object.Type == "function" && c.name != "":
	case err == nil && object.Type == "mcp" && object.ServerLabel != "" && object.Name != "":
		c.name = object.ServerLabel + "/" + object.Name
	default:
		return errors.New(`it has to be "auto", "none", "required", an object of the type "function" with a name, or {"type": "mcp", "server_label": …, "name": …}`)
	}
	return nil
}

// at returns the path of an array's element.
func at(array string, i int) string { return array + "[" + strconv.Itoa(i) + "]" }
