package strictjson

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Object is a JSON object that can be changed. Members keep their order, and values are exact JSON text. The zero value is empty.
type Object struct {
	keys   []string
	values map[string]string
}

// ParseObject reads an object and compacts its values. Blank text is the empty object.
func ParseObject(text string) (*Object, error) {
	o := &Object{}
	if strings.TrimSpace(text) == "" {
		return o, nil
	}
	doc, err := Parse(text, Rules{})
	if err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if kind := Kind(doc.text); kind != "object" {
		return nil, fmt.Errorf("read a JSON object: it is %s", WithArticle(kind))
	}
	for key, value := range Members(doc.text) {
		o.Set(key, value)
	}
	return o, nil
}

// Keys returns the keys in order. The caller must not change them.
func (o *Object) Keys() []string { return o.keys }

// Get returns a member's JSON text.
func (o *Object) Get(key string) (string, bool) {
	v, ok := o.values[key]
	return v, ok
}

// Has reports whether the object has a member.
func (o *Object) Has(key string) bool {
	_, ok := o.values[key]
	return ok
}

// Set sets the value of a member, as JSON text. A new member goes to the end.
func (o *Object) Set(key, raw string) {
	if o.values == nil {
		o.values = map[string]string{}
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = raw
}

// Delete removes a member if it is there.
func (o *Object) Delete(key string) {
	delete(o.values, key)
	o.keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return k == key })
}

// Clone returns a copy.
func (o *Object) Clone() *Object { return &Object{slices.Clone(o.keys), maps.Clone(o.values)} }

// String writes the object as compact JSON.
func (o *Object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(Quote(k))
		b.WriteByte(':')
		b.WriteString(o.values[k])
	}
	b.WriteByte('}')
	return b.String()
}
